"""Modules and networks for RLlib's new API stack: action masks, images, and nested observations.

`configure` chooses them. For a config of your own:

    from envoi.integrations.rllib.modules import set_modules

    env = creator({})  # to_rllib("…", canonical="structured", action_masks="auto")
    set_modules(config, [(env.observation_space, env.action_space)])

Importing this package imports RLlib and torch.
"""

from __future__ import annotations

from ...errors import missing_rllib

try:
    from .catalogs import (
        StructuredBCCatalog,
        StructuredCatalog,
        StructuredDQNCatalog,
        StructuredPPOCatalog,
        StructuredSACCatalog,
        StructuredTQCCatalog,
        conv_filters,
    )
    from .choice import check_module, has_own_module, module_spec, networks_of, set_modules
    from .masked import MaskedAPPOModule, MaskedBCModule, MaskedDQNModule, MaskedPPOModule, MaskedSACModule
except ImportError as error:
    raise missing_rllib(error) from error

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
