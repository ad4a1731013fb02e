"""Modules and networks for RLlib's new API stack: action masks, images, and nested observations.

`configure` chooses them. For a config of your own:

    from envoi.integrations.rllib.modules import set_modules

    env = creator({})  # to_rllib("…", canonical="structured", action_masks="auto")
    set_modules(config, [(env.observation_space, env.action_space)])

Importing this package imports RLlib and torch.
"""

from __future__ import annotations

import envoi

try:
    from .catalogs import (
        StructuredBCCatalog,
        StructuredCatalog,
        StructuredDQNCatalog,
        StructuredPPOCatalog,
        StructuredSACCatalog,
        StructuredTQCCatalog,
    )
    from .check import check_module
    from .choice import has_own_module, module_spec, networks_of, set_modules
    from .filters import conv_filters
    from .masked import MaskedAPPOModule, MaskedBCModule, MaskedDQNModule, MaskedPPOModule, MaskedSACModule
except ImportError as error:
    raise envoi.MissingBackend(f"RLlib cannot be used ({error}); pip install 'envoi[rllib]'") from error

__all__ = [
    "MaskedAPPOModule",
    "MaskedBCModule",
    "MaskedDQNModule",
    "MaskedPPOModule",
    "MaskedSACModule",
    "StructuredBCCatalog",
    "StructuredCatalog",
    "StructuredDQNCatalog",
    "StructuredPPOCatalog",
    "StructuredSACCatalog",
    "StructuredTQCCatalog",
    "check_module",
    "conv_filters",
    "has_own_module",
    "module_spec",
    "networks_of",
    "set_modules",
]
