"""What flat observations and flat actions have in common."""

from __future__ import annotations

from typing import Any

from numpy.typing import DTypeLike, NDArray

from ..errors import SpecError, nearest
from ..flattening.layout import Flattening
from ..wrapping.lifted import Lifted


class Flattened(Lifted):
    """What the two have in common.

    Attributes:
        flattenings: How each agent's values lie; under None where there is but one agent.
    """

    def __init__(self, env: Any, order: str, dtype: DTypeLike, discrete: str) -> None:
        self.order, self.dtype, self.discrete = order, dtype, discrete
        self.flattenings: dict[Any, Flattening] = {}
        super().__init__(env)

    def _made(self, spec: Any, what: str, agent: Any) -> Flattening:
        self.flattenings[agent] = made = Flattening(spec, self.order, self.dtype, self.discrete, what)
        return made

    def flattening(self, agent: Any = None) -> Flattening:
        """How values lie in the flat array: `slices` by path, and `spec`.

        Args:
            agent: Whose, where there are several.

        Raises:
            SpecError: There is no such agent.
        """
        if agent not in self.flattenings:
            raise SpecError(f"agent: got {agent!r}; {nearest(str(agent), map(str, self.flattenings))}")
        return self.flattenings[agent]

    def flatten(self, value: Any, agent: Any = None) -> NDArray[Any]:
        """A nested value as an array of shape (…, k); the leading axes of its leaves, such as lanes, are kept."""
        return self.flattening(agent).flatten(value)

    def unflatten(self, array: Any, agent: Any = None) -> Any:
        """The exact inverse: an array of shape (…, k) as a nested value, each leaf in its own dtype."""
        return self.flattening(agent).unflatten(array)


def called(what: str, agent: Any) -> str:
    """Returns how messages call a value of an agent.

    Args:
        what: `"observation"` or `"action"`.
        agent: Whose; None where there is but one agent.
    """
    return what if agent is None else f"{what}[{agent!r}]"
