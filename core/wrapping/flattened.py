"""The common part of flat observations and flat actions."""

from __future__ import annotations

from typing import Any

from numpy.typing import DTypeLike, NDArray

from ..errors import SpecError, nearest
from ..flattening.layout import Flattening
from .lifted import Lifted


class Flattened(Lifted):
    """A wrapper that packs nested values into flat arrays.

    Args:
        env: The environment.
        order: The order of the leaves, see `Flattening`.
        dtype: The dtype of the flat array, see `Flattening`.
        discrete: The encoding of integers, see `Flattening`.

    Attributes:
        flattenings: The layout of each agent's values; under None where there is one agent.
    """

    def __init__(self, env: Any, order: str, dtype: DTypeLike, discrete: str) -> None:
        self.order, self.dtype, self.discrete = order, dtype, discrete
        self.flattenings: dict[Any, Flattening] = {}
        super().__init__(env)

    def _made(self, spec: Any, what: str, agent: Any) -> Flattening:
        self.flattenings[agent] = made = Flattening(spec, self.order, self.dtype, self.discrete, what)
        return made

    def flattening(self, agent: Any = None) -> Flattening:
        """Returns the layout of the flat array: `slices` by path, and `spec`.

        Args:
            agent: The agent, if there are several.

        Raises:
            SpecError: There is no such agent.
        """
        if agent not in self.flattenings:
            raise SpecError(f"agent: got {agent!r}; {nearest(str(agent), map(str, self.flattenings))}")
        return self.flattenings[agent]

    def flatten(self, value: Any, agent: Any = None) -> NDArray[Any]:
        """Returns a nested value as an array of shape (…, k).

        Args:
            value: The nested value; leading axes of its leaves, such as lanes, are kept.
            agent: The agent, if there are several.
        """
        return self.flattening(agent).flatten(value)

    def unflatten(self, array: Any, agent: Any = None) -> Any:
        """Returns an array as a nested value: the exact inverse of `flatten`.

        Args:
            array: The flat array, of shape (…, k).
            agent: The agent, if there are several.

        Returns:
            The nested value, each leaf in its own dtype.
        """
        return self.flattening(agent).unflatten(array)


def called(what: str, agent: Any) -> str:
    """Returns the name of an agent's value in messages.

    Args:
        what: `"observation"` or `"action"`.
        agent: The agent; None if there is only one.
    """
    return what if agent is None else f"{what}[{agent!r}]"
