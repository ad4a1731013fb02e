"""A curriculum for environments that Stable-Baselines3 puts into processes of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper

from envoi.errors import ContextError


class CurriculumVecEnv(VecEnvWrapper):
    """Passes contexts from a curriculum to the processes of a `SubprocVecEnv`, and reports their episodes back.

        def make():
            return to_gymnasium(Contextual(load("envoi:cartpole"), contexts, context_selector=Handed()))

        venv = CurriculumVecEnv(SubprocVecEnv([make] * 4), PrioritizedLevelReplay(seed=0))

    The step that ends an episode also begins the next one, so contexts are chosen one episode ahead: when the previous
    episode begins. Lanes inside the training process, as in `to_sb3` of a batch or a `DummyVecEnv`, share a curriculum
    without this class and without the delay.

    Args:
        venv: The vector environment; each of its environments is a form of a `Contextual` with a `Handed` selector.
        curriculum: A selector of `envoi.curricula`, or of your own.

    Raises:
        ContextError: An environment has no such selector.
    """

    def __init__(self, venv: VecEnv, curriculum: Any) -> None:
        super().__init__(venv)
        try:
            venv.env_method("exchange_contexts", [])
        except AttributeError as error:
            raise ContextError(
                "venv: expected environments that are a Contextual with context_selector=envoi.curricula.Handed()"
            ) from error
        curriculum.begin(venv.get_attr("contexts", [0])[0], venv.get_attr("context_space", [0])[0])
        self.curriculum = curriculum
        self._held = [0] * venv.num_envs  # how many contexts each lane has that are to come

    def _hand(self, lane: int, n: int) -> None:
        coming = [self.curriculum.select(np.random.default_rng()) for _ in range(n - self._held[lane])]
        self.venv.env_method("exchange_contexts", coming, indices=[lane])
        self._held[lane] = n

    def reset(self) -> Any:
        for lane in range(self.num_envs):
            self._hand(lane, 2)
        observation = self.venv.reset()
        self._held = [1] * self.num_envs
        return observation

    def step_wait(self) -> Any:
        observation, reward, done, info = self.venv.step_wait()
        lanes = np.flatnonzero(done).tolist()
        rows = [self.venv.env_method("exchange_contexts", [], indices=[lane])[0] for lane in lanes]
        if lanes:
            self.curriculum.tell(
                [{**row, "lane": lane} for lane, ended in zip(lanes, rows, strict=True) for row in ended]
            )
        for lane in lanes:
            self._held[lane] = 0
            self._hand(lane, 1)
        return observation, reward, done, info
