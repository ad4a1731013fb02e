"""The entry points in specs: their places as text, because the functions need modules that read specs.

The functions are in `entry_points`, here and in `envoi.adapters.gymnasium_vector`.
"""

_HERE = "envoi.adapters.gymnasium.entry_points"
_VECTOR = "envoi.adapters.gymnasium_vector.entry_points"

MAKE_BY_NAME = f"{_HERE}:make_by_name"
WRAP = f"{_HERE}:wrap"
SET_CONTEXT = f"{_HERE}:set_context"
LIMIT_BASE = f"{_HERE}:limit_base"

MAKE_LANES = f"{_VECTOR}:make_lanes"
MAKE_WRAPPED = f"{_VECTOR}:make_wrapped"
