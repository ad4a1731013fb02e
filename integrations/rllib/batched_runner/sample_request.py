"""The request that RLlib makes of an env runner by the arguments of `_sample`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SampleRequest:
    """The arguments of `_sample` of RLlib's env runners.

    Args:
        explore: If True, the policies explore.
        num_timesteps: The number of steps to make; None for a number of episodes.
        num_episodes: The number of episodes to end, if there is no `num_timesteps`.
        random_actions: If True, actions are samples of the action spaces.
        force_reset: If True, all environments are reset first.
    """

    explore: bool
    num_timesteps: int | None = None
    num_episodes: int | None = None
    random_actions: bool = False
    force_reset: bool = False

    def is_met(self, steps: int, episodes: int) -> bool:
        """Returns True if enough was sampled.

        Args:
            steps: The steps made.
            episodes: The episodes that have ended.
        """
        return episodes >= (self.num_episodes or 0) if self.num_timesteps is None else steps >= self.num_timesteps

    def missing_episodes(self, episodes: int) -> int | None:
        """Returns the number of episodes that are still to end; None if their number does not matter.

        Args:
            episodes: The episodes that have ended.
        """
        return None if self.num_episodes is None else self.num_episodes - episodes
