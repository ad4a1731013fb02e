"""Curricula: selectors that learn from how episodes end.

`Contextual` reports each episode to its selector, so a curriculum needs no callback in any framework:

    curriculum = PrioritizedLevelReplay(seed=0)
    env = Contextual(load("envoi:cartpole"), contexts, context_selector=curriculum)

Batches, copies and forms of the environment share this object. It has its own random generator and takes one number
per choice: equal seeds and an equal sequence of calls to `select` and `tell` give equal choices, in every framework.
"""

from .curriculum import Curriculum, Custom, Handed
from .learning_progress import LearningProgress
from .level_replay import PrioritizedLevelReplay, critic_score
from .self_paced import SelfPaced
from .stages import Annealed, Sequential

__all__ = [
    "Annealed",
    "Curriculum",
    "Custom",
    "Handed",
    "LearningProgress",
    "PrioritizedLevelReplay",
    "SelfPaced",
    "Sequential",
    "critic_score",
]
