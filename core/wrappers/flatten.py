"""Wrappers that flatten nested observations and actions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from types import NoneType
from typing import Any, cast

from numpy.typing import DTypeLike, NDArray

from ..errors import SpecError, nearest
from ..flattening import Flattening
from ..spec import SpecTree
from ..tree import AnyDict
from ..wrapping.change import Change, Specs
from ..wrapping.lifted import Lifted


class Flattened(Lifted):
    """A wrapper that packs nested values into flat arrays.

    Attributes:
        flattenings: The layout of values by agent; the key is None in a single-agent environment.
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
            agent: The agent, in a multi-agent environment.

        Raises:
            SpecError: There is no such agent.
        """
        if agent not in self.flattenings:
            raise SpecError(f"agent: got {agent!r}; {nearest(str(agent), map(str, self.flattenings))}")
        return self.flattenings[agent]

    def flatten(self, value: Any, agent: Any = None) -> NDArray[Any]:
        """Flattens a nested value into an array of shape (…, k).

        Args:
            value: The nested value. Leading axes of its leaves, such as lanes, are kept.
            agent: The agent, in a multi-agent environment.
        """
        return self.flattening(agent).flatten(value)

    def unflatten(self, array: Any, agent: Any = None) -> Any:
        """Converts a flat array back to a nested value. It is the exact inverse of `flatten`.

        Args:
            array: The flat array, of shape (…, k).
            agent: The agent, in a multi-agent environment.

        Returns:
            The nested value, each leaf in its own dtype.
        """
        return self.flattening(agent).unflatten(array)


def called(what: str, agent: Any) -> str:
    """Returns the name of an agent's value in messages."""
    return what if agent is None else f"{what}[{agent!r}]"


class FlattenObservation(Flattened):
    """Packs a nested observation into one flat array.

    Args:
        env: The environment.
        allowlist: The parts of a dict observation to keep: keys, or paths into nested dicts such as `"robot/arm"`; None
            keeps all. The parts stay in the order of the observation.
        order: The order of dict keys: `"insertion"` keeps it; `"sorted"` sorts as TF-Agents does, and gymnasium for a
            `Dict` space made from a plain dict.
        dtype: `"strict"`, `"promote"`, or a dtype that may round; see `Flattening`.
        discrete: The encoding of discrete values: `"integer"` or `"one_hot"`.
        observations_whitelist: An older TF-Agents name of `allowlist`.
        observations_allowlist: The TF-Agents name of `allowlist`.

    Attributes:
        allowlist: The names of the kept parts, or None.

    Raises:
        SpecError: The allowlist has an unknown name, a leaf is not an array of numbers, or the dtypes cannot be
            combined.
    """

    def __init__(
        self,
        env: Any,
        allowlist: Collection[Any] | None = None,
        *,
        order: str = "insertion",
        dtype: DTypeLike = "strict",
        discrete: str = "integer",
        observations_whitelist: Collection[Any] | None = None,
        observations_allowlist: Collection[Any] | None = None,
    ) -> None:
        given = [one for one in (allowlist, observations_whitelist, observations_allowlist) if one is not None]
        if len(given) > 1:
            raise SpecError(f"allowlist: expected it once, got it {len(given)} times, under several names")
        names = given[0] if given else None
        if isinstance(names, str) or not isinstance(cast("object", names), (Collection, NoneType)):
            raise SpecError(f"allowlist: expected a list of names, got {names!r}")
        self.allowlist = None if names is None else tuple(names)
        super().__init__(env, order, dtype, discrete)

    def change(self, specs: Specs) -> Change:
        what = called("observation", specs.agent)
        spec = specs.observation if self.allowlist is None else _chosen(specs.observation, self.allowlist, what)
        made = self._made(spec, what, specs.agent)
        if specs.lanes is None:
            return Change(observation_spec=made.spec, observation=made.one)
        many, lead = made.many, (specs.lanes,)

        def all_lanes(values: Any) -> Any:
            return many(values, lead)

        return Change(observation_spec=made.spec, observation=all_lanes)


def _chosen(spec: SpecTree, names: Collection[Any], what: str) -> SpecTree:
    """Returns the named parts of a dict of specs, in the order of the spec."""
    if not isinstance(spec, AnyDict):
        raise SpecError(
            f"allowlist: expected None, for {what} is no dict and has no names to choose from; it is {spec}"
        )
    known = dict(_named(spec))
    kept: list[tuple[Any, ...]] = []
    for name in names:
        if name not in known:
            raise SpecError(f"allowlist: {what} has no {name!r}; {nearest(str(name), map(str, known))}")
        kept.append(known[name])
    return _pruned(spec, kept)


def _named(spec: dict[Any, SpecTree]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yields the `(name, keys)` that an allowlist can name; plain keys come last, because they win over paths."""
    for key, sub in spec.items():
        if isinstance(sub, AnyDict):
            for name, keys in _named(sub):
                yield f"{key}/{name}", (key, *keys)
    for key in spec:
        yield key, (key,)


def _pruned(spec: dict[Any, SpecTree], kept: Sequence[tuple[Any, ...]]) -> SpecTree:
    result: dict[Any, SpecTree] = {}
    for key, sub in spec.items():
        inside = [keys[1:] for keys in kept if keys[0] == key]
        if inside:
            result[key] = sub if () in inside else _pruned(sub, inside)
    return type(spec)(result)


class FlattenAction(Flattened):
    """Accepts one flat array in place of a nested action.

    Every array in the flat spec is a valid action: for an integer leaf, a float is rounded to the nearest integer.

    Args:
        env: The environment.
        order: The order of dict keys: `"insertion"` keeps it; `"sorted"` sorts as TF-Agents does.
        dtype: `"strict"`, `"promote"`, or a dtype that may round; see `Flattening`.
        discrete: The encoding of discrete values: `"integer"`, or `"one_hot"`, where the largest element wins.

    Raises:
        SpecError: A leaf is not an array of numbers, or the dtypes cannot be combined.
    """

    def __init__(
        self, env: Any, *, order: str = "insertion", dtype: DTypeLike = "strict", discrete: str = "integer"
    ) -> None:
        super().__init__(env, order, dtype, discrete)

    def change(self, specs: Specs) -> Change:
        made = self._made(specs.action, called("action", specs.agent), specs.agent)
        return Change(action_spec=made.spec, action=made.unflatten)
