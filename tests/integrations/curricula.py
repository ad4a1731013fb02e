"""Environments and curricula that RLlib's processes load by name."""

import envoi
from envoi.curricula import Custom, PrioritizedLevelReplay

TWENTY = {index: {"m": 0.5 + index / 20} for index in range(20)}


def swinging():
    return envoi.TimeLimit(envoi.models.Pendulum(), 25)


def visible(contexts=None, **arguments):
    arguments = {"state_context_features": "changing_context_features", **arguments}
    env = envoi.Contextual(envoi.models.Pendulum(), contexts or {"a": {"m": 1.0}, "b": {"m": 3.0}}, **arguments)
    return envoi.TimeLimit(env, 25)


def game():
    return envoi.as_multi(swinging())


class Logged(PrioritizedLevelReplay):
    """Keeps the episodes that are reported to it."""

    learned = (*PrioritizedLevelReplay.learned, "reported")

    def __init__(self, **arguments):
        self.reported = []
        super().__init__(**{"seed": 4, **arguments})

    def restart(self):
        super().restart()
        self.reported = []

    def tell(self, episodes):
        self.reported = [*self.reported, episodes]
        super().tell(episodes)


def on_nineteen_later(statistics):
    return [1.0] * 20 if not statistics["episodes"].any() else [0.0] * 19 + [1.0]


def switching():
    return Custom(on_nineteen_later, seed=1)
