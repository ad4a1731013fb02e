"""Traces of environments, as values that `==` compares exactly: dtype, shape and bytes."""

import copy
import pickle

import cloudpickle
import numpy as np

from envoi import Infos

COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
    "cloudpickle": lambda env: pickle.loads(cloudpickle.dumps(env)),
}
"""The ways in which an environment can be copied, by name."""


def exact(value):
    """Returns a key that is equal only for equal structures of equal types and equal bytes."""
    if isinstance(value, Infos):
        return [exact(info) for info in value]
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [exact(part) for part in value]  # whose bytes are addresses
    if isinstance(value, (np.ndarray, np.generic)):
        return (type(value), value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, dict):
        return [(key, exact(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return (type(value), [exact(part) for part in value])
    return (type(value), value)


def spoil(value):
    """Writes into all that can be written into."""
    if isinstance(value, dict):
        for part in value.values():
            spoil(part)
        value.clear()
    elif isinstance(value, np.ndarray) and value.flags.writeable:
        value[...] = -7


class Player:
    """Plays an environment with sampled actions, from its present state on; it resets episodes that have ended."""

    def __init__(self, env, seed=None):
        self.env = env
        self.first = exact(env.reset(seed=seed))
        self.over = False if env.batch_size is None else np.zeros(env.batch_size, bool)

    def play(self, steps, env=None, over=None):
        """Returns the next `steps` steps of `env`, or of the environment that the player was made with."""
        env, given = (self.env if env is None else env), over is not None
        over, steps_taken = (over if given else self.over), []
        for _ in range(steps):
            action = env.sample_action()
            if env.batch_size is not None:
                step = env.step(action, restart=over)
                over = step.terminated | step.truncated
            elif over:
                step, over = env.reset(), False
            else:
                step = env.step(action)
                over = step.terminated or step.truncated
            steps_taken.append((exact(action), exact(step)))
        if not given:
            self.over = over
        return steps_taken


def trace(env, steps, seed=None):
    """Returns the first reset and the steps after it."""
    player = Player(env, seed)
    return [player.first, *player.play(steps)]
