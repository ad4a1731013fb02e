"""Wrappers written once: a change for one agent, lifted onto one agent, several, and batches.

    class Sticky(envoi.Lifted): ...         # defines `change(specs)`

    Sticky(env)       a `Sticky.over_env` over an `Env` or a batch; an `Env`
    Sticky(multi)     a `Sticky.over_multi_env` over a `MultiEnv`; a `MultiEnv`

These two classes exist as soon as `Sticky` does. They combine it with `LiftedEnv` and `LiftedMultiEnv`, which hold all
that differs between one agent and several; pickles refer to them by name.

One class could not do both. An instance is either an `Env` or a `MultiEnv`, since everything asks by `isinstance`. It
also has `Sticky` among its classes, so that `isinstance(x, Sticky)`, a `step` or `reset` of its own, and `super()`
work. A single static wrapper that holds the change would lose the latter; two classes written by hand would double the
ten lines of every author.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..protocol.env import Env
from ..protocol.multi_env import MultiEnv
from .changing import Changing
from .lifted_multi import LiftedMultiEnv
from .lifted_single import LiftedEnv

if TYPE_CHECKING:
    _Base = LiftedEnv  # a type checker takes it for the one over an `Env`
else:
    _Base = Changing


class Lifted(_Base):
    """A wrapper that defines its change for one agent, and works over one agent, several agents, and batches.

    A subclass sets its own attributes, then calls `super().__init__(env)`, and defines `change`. One that does more
    overrides `reset(**arguments)` and `step(action, restart=None, hold=None)`, which all kinds have, and calls
    `super()`. One that needs code of its own for each kind names base classes:

        class FixedLength(envoi.Lifted, over_env=PaddedEnv, over_multi_env=PaddedMultiEnv): ...

    Args:
        env: The environment inside: an `Env`, a batch or a `MultiEnv`; the wrapper then is one too.

    Attributes:
        over_env: The class of this wrapper over an `Env` or a batch.
        over_multi_env: The class of this wrapper over a `MultiEnv`.
    """

    over_env: ClassVar[type[Any]] = LiftedEnv
    over_multi_env: ClassVar[type[Any]] = LiftedMultiEnv

    def __init_subclass__(
        cls,
        over_env: type[LiftedEnv] | None = None,
        over_multi_env: type[LiftedMultiEnv] | None = None,
        **arguments: Any,
    ) -> None:
        super().__init_subclass__(**arguments)
        if not {LiftedEnv, LiftedMultiEnv}.intersection(cls.__mro__):  # as the two classes made here have them
            cls.over_env = cls._over("over_env", over_env)
            cls.over_multi_env = cls._over("over_multi_env", over_multi_env)

    @classmethod
    def _over(cls, name: str, base: type | None) -> type:
        """Returns this class combined with those of its bases over the same kind of environment."""
        bases = [getattr(parent, name) for parent in cls.__bases__ if issubclass(parent, Lifted)]
        own = {"__module__": cls.__module__, "__qualname__": f"{cls.__qualname__}.{name}", "__doc__": cls.__doc__}
        return type(cls)(cls.__name__, (cls, *([] if base is None else [base]), *bases), {**own, "_kind": cls})

    if not TYPE_CHECKING:  # which reads the arguments from `__init__`

        def __new__(cls, env: Any = None, *args: Any, **kwargs: Any) -> Self:
            several = isinstance(env, MultiEnv) or (env is None and issubclass(cls, MultiEnv))  # None: a pickle
            kind = cls.over_multi_env if several else cls.over_env
            return super().__new__(cls if cls.__abstractmethods__ else kind, env, *args, **kwargs)


def ended(env: Env | MultiEnv, step: Any) -> Any:
    """Returns True if a step has ended the episode; for a batch a bool array of shape (n,)."""
    if isinstance(env, MultiEnv):
        return not env.agents
    return step.terminated or step.truncated if env.batch_size is None else step.terminated | step.truncated
