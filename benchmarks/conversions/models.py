"""Layers around the core's own models."""

from __future__ import annotations

import gymnasium
from measuring.loops import Case, episodes, lanes, one_by_one
from measuring.null_envs import NullBatchModel, NullByHand, NullGymnasium, NullModel
from measuring.rows import Group, layer

import envoi
from envoi.adapters import to_gymnasium, to_sb3

LAYER = 80
"""Goal: the most nanoseconds that a wrapper which changes one value adds."""


class Halved(envoi.Lifted):
    """Changes one value."""

    def change(self, specs):
        return envoi.Change(reward=lambda reward: reward * 0.5)


class HalvedByHand(gymnasium.RewardWrapper):
    """`Halved`, as a wrapper of gymnasium."""

    def reward(self, reward):
        return reward * 0.5


def wrapped(env, wrapper, layers: int):
    for _ in range(layers):
        env = wrapper(env)
    return env


def wrappers(layers: int) -> Group:
    """Returns the row of wrappers that change one value each, in the gymnasium form, over none."""
    return layer(
        f"{layers} wrapper{'' if layers == 1 else 's'}, over none",
        episodes(lambda: to_gymnasium(NullModel())),
        episodes(lambda: to_gymnasium(wrapped(NullModel(), Halved, layers))),
        {"gymnasium's": episodes(lambda: wrapped(NullByHand(), HalvedByHand, layers))} if layers else {},
        peer_base=episodes(NullByHand),
        most=LAYER * layers if layers else None,
    )


def made(name: str, **options) -> Case:
    return episodes(lambda: gymnasium.make(name, **options))


def dummy_lanes(n: int):
    from stable_baselines3.common.vec_env import DummyVecEnv

    return DummyVecEnv([NullGymnasium] * n)


def to_stable_baselines3(n: int) -> list[Group]:
    """Returns the rows of n lanes, each beside Stable-Baselines3's own loop over the same null environment."""
    peers = {"DummyVecEnv": lanes(lambda: dummy_lanes(n), n)}
    below = one_by_one(lambda: [NullGymnasium() for _ in range(n)])
    models = one_by_one(lambda: [NullModel() for _ in range(n)])
    batch = lanes(lambda: envoi.batch(NullBatchModel(), n), n)
    unit = "ns added a step of all lanes"
    return [
        layer(
            f"{n} lanes of {kind} → SB3",
            base,
            lanes(lambda model=model: to_sb3(envoi.batch(model(), n)), n),
            peers,
            peer_base=below,
            unit=unit,
            lanes=n,
        )
        for kind, model, base in (("a Model", NullModel, models), ("a BatchModel", NullBatchModel, batch))
    ]


def groups() -> list[Group]:
    form = episodes(lambda: to_gymnasium(NullModel()))
    return [
        layer(
            "core → gymnasium",
            episodes(NullModel),
            form,
            {
                "gymnasium.make, with a time limit": made("NullLimited-v0"),
                "gymnasium.make": made("Null-v0"),
                "gymnasium.make, no checker": made("Null-v0", disable_env_checker=True),
            },
            peer_base=episodes(NullGymnasium),
            most=0,
        ),
        layer("Model, over a gymnasium env by hand", episodes(NullGymnasium), episodes(NullModel)),
        layer(
            "Model → gymnasium, over one by hand",
            episodes(NullByHand),
            form,
            {"gymnasium.make's wrappers": made("NullByHand-v0")},
            most=150,
        ),
        *(wrappers(layers) for layers in (0, 1, 3, 6)),
        *to_stable_baselines3(8),
        *to_stable_baselines3(64),
    ]
