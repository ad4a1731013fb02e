"""The types of TF-Agents without TensorFlow: environments, time steps and specs with the same methods and meaning.

They are used if `tf_agents` is not installed, and behave as in TF-Agents 0.19. Methods on tensors are left out. Each is
in a module named as that of TF-Agents.
"""

from .array_spec import ArraySpec, BoundedArraySpec
from .py_environment import PyEnvironment
from .time_step import StepType, TimeStep

__all__ = ["ArraySpec", "BoundedArraySpec", "PyEnvironment", "StepType", "TimeStep"]
