"""What the adapters' tests share: importable scripted environments, and the frameworks' own advice silenced."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

# Scripted environments must be importable by name, so that they pickle and workers find them.
sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile("adapters", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("adapters")

ADVICE = (
    "ignore::DeprecationWarning:ray",
    "ignore::ray.rllib.utils.deprecation.RayDeprecationWarning",
    "ignore::ResourceWarning",
    "ignore:.*:DeprecationWarning:.*tensorboardX.*",
    "ignore:.*RLModule.*:DeprecationWarning",
    "ignore:.*does not exist in the RLModule.*",
)


