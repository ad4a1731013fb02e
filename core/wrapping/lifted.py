"""Wrappers written once: a change for one agent, lifted onto one agent, several, and batches.

    class NoisyReward(envoi.Lifted): ...        # says `change(specs)`

    NoisyReward(env)          an `Env` over an `Env`, a batch over a `BatchEnv`, a `MultiEnv` over a `MultiEnv`

Everything that differs between these three kinds is in `OverOne` and `OverSeveral`; a wrapper says what changes, see
`Change`. One that has more to do overrides `reset(**arguments)` and `step(action, restart=None)`, which all three kinds
have, and calls `super()`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from ..protocol.env import Env
from ..protocol.multi_env import MultiEnv
from ..rewards.rewarder import Rewarder, RewardFunction, spec_range
from .change import Change, Specs
from .delegate import Around
from .lifted_multi import OverSeveral
from .lifted_single import OverOne
from .wrapper import Wrapper

if TYPE_CHECKING:
    # What a type checker may take it for; over several agents it is a `MultiWrapper`.
    _Base = Wrapper
else:
    _Base = Around


class Lifted(_Base):
    """A wrapper that says its change for one agent, and holds for one, for several, and for batches.

    A subclass sets its own attributes, then calls `super().__init__(env)`, and defines `change`.

    Args:
        env: What to wrap: an `Env`, a batch or a `MultiEnv`; the wrapper then is one too.
    """

    # What it is over one agent or a batch, and over several, where it needs more than `change` can say.
    _one: ClassVar[type[OverOne] | None] = None
    _several: ClassVar[type[OverSeveral] | None] = None

    _planned = (
        *("_change", "_changes", "_shared", "_inner_step", "raw_step"),
        *("_act", "_see", "_pay", "_begin", "_remember", "_note", "_end", "_tell", "_short"),
    )

    if not TYPE_CHECKING:  # which take the arguments from `__init__`

        def __new__(cls, env: Any = None, *args: Any, **kwargs: Any) -> Self:
            return Around.__new__(_lifted(cls._written(), isinstance(env, MultiEnv)), env, *args, **kwargs)

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._plan()

    def change(self, specs: Specs) -> Change:
        """What changes for one agent; called once for each, and again where what it follows from has changed."""
        return Change()

    def beginning(self, restart: Any) -> None:
        """Told before lanes begin anew within a step of a batch, and not by `reset`.

        Args:
            restart: Shape (n,), which lanes.
        """

    if TYPE_CHECKING:

        def _plan(self) -> None:
            """Decides all that a step need not: asks for the change, and sets the specs."""

    @classmethod
    def _written(cls) -> type[Lifted]:
        """The class that somebody wrote, of which this may be the one over an `Env` or a `MultiEnv`."""
        return next(kind for kind in cls.__mro__ if "_lifts" not in kind.__dict__)

    @property
    def _kind(self) -> type:
        return self._written()

    @property
    def rewarder(self) -> Rewarder:
        """The inner environment's rewarder; settable there through here."""
        return self.env.rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        self.env.rewarder = rewarder
        self._plan()  # its spec follows

    @property
    def reward_range(self) -> tuple[float, float]:
        """The (lowest, highest) reward: the rewarder's, unless this wrapper changes rewards."""
        changed = self.reward_spec is not self.env.reward_spec
        return spec_range(self.reward_spec) if changed else self.env.reward_range

    def __reduce__(self) -> tuple[Any, ...]:
        return _blank, (self._written(), isinstance(self, MultiEnv)), self.__getstate__()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._planned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._plan()


@cache
def _lifted(written: type[Lifted], several: bool) -> type[Lifted]:
    """The class of a wrapper over one kind of environment."""
    base = (written._several or OverSeveral) if several else (written._one or OverOne)  # pyright: ignore[reportPrivateUsage]
    own = {"__module__": written.__module__, "__qualname__": written.__qualname__, "__doc__": written.__doc__}
    return cast("type[Lifted]", type(written.__name__, (written, base), {**own, "_lifts": True}))


def _blank(written: type[Lifted], several: bool) -> Lifted:
    return object.__new__(_lifted(written, several))


def ended(env: Env | MultiEnv, step: Any) -> Any:
    """Whether a step has ended the episode: a bool, or for a batch one a lane."""
    if isinstance(env, MultiEnv):
        return not env.agents
    return step.terminated or step.truncated if env.batch_size is None else step.terminated | step.truncated
