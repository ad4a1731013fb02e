"""Finds the fastest step of an environment that other layers may call, unless a user overrides `step`.

Environments and the wrappers around them step by a program, see `envoi.steps.program`. Importers of several agents
have whole methods beside `step`:

| method | result | look-up | pays for the row of `benchmarks/conversion.py` |
|---|---|---|---|
| `step_program()` | the stages of a step | `program_of` | Model → gymnasium, over one by hand |
| `source_step(actions)` | the values of a step | `fast_step` | PettingZoo parallel → RLlib |
| `step_rows(actions)` | all observations as one array | `rows_step` | PettingZoo parallel → vector env |

Each method is used unless a user overrides `step`; `_beside_step` has this rule for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..errors import SpecError
from ..steps.flat import SIX_VALUES, Finish, flat_step
from ..steps.program import VALUES, Program, Stage, library_name, source_of
from ..steps.record import Record
from .batch_env import LANES_VALUES, masks_of
from .process import Process

if TYPE_CHECKING:
    from .env import Env
    from .multi_env import MultiEnv

VALUES_AND_ENDS = Finish("the values of many lanes, and the lanes that have ended", f"return {LANES_VALUES}")

StepValues = Callable[[Any], tuple[Any, Any, Any, Any, Any, dict[Any, Any]]]
"""`action -> (observation, reward, terminated, truncated, discount, info)`, discount None for the default."""


# One agent, and batches.


def fast_step(env: Env | MultiEnv) -> StepValues:
    """Returns the fastest step function of an environment that respects user overrides of `step`.

    A `step` that is overridden in a subclass, or patched onto a class or an instance before this call, is called; one
    that is patched later is not. Functions of a model that are patched later are called: those that its author wrote
    at once, the other ones from the next reset on.
    """
    return _beside_step(env, "source_step", None) or step_around(env, lambda program: SIX_VALUES)


def step_around(env: Env | MultiEnv, finish: Callable[[Program], Finish]) -> Callable[..., Any]:
    """Returns the step of an environment as one function that ends with the lines of a form."""
    return flat_step(lambda: program_of(env), finish)


def program_of(env: Env | MultiEnv) -> Program:
    """Returns the program of an environment's step. If a user overrides `step`, its only stage calls that."""
    program = _beside_step(env, "step_program", None)
    return program_that_calls(env) if program is None else program()


def program_that_calls(env: Env | MultiEnv) -> Program:
    """Returns a program with a single stage, which calls the environment's `step`."""
    title = f"{library_name(type(env), 'a layer')}: called as it is"
    names: dict[str, Any] = {"inner_step": env.step, "inner": env}
    # A copy of the actions of several agents, for who overrides `step` may change it.
    given, end, opening = "{**action}" if hasattr(env, "possible_agents") else "action", "", None
    if getattr(env, "batch_size", None) is not None:
        given, names["given_masks"] = "action, *given_masks(restart, hold)", _given_masks
        end, opening = "\nover = None", masks_of(cast("Any", env))
    call = f"{', '.join(VALUES)} = inner_step({given}){end}"
    save, undo = "_back0 = inner.hold_episode()", "_back0()"
    stage = Stage(title, call, names, guarded=True, save=save, undo=undo)
    return Program((stage,), record_of(env), opening=opening)


def record_of(env: Env | MultiEnv) -> Record:
    """Returns the record that the layers around an environment share."""
    return env.outer_record if _beside_step(env, "step_program", None) is None else env.step_record


def _given_masks(restart: Any, hold: Any) -> tuple[Any, ...]:
    """Returns the arguments for the masks. Leaves out masks that are None, which a user's `step` may not accept."""
    return (restart, hold) if hold is not None else () if restart is None else (restart,)


# Several agents.


def rows_step(env: MultiEnv) -> Callable[[Sequence[Any]], tuple[Any, ...]] | None:
    """Returns an environment's `step_rows(actions)`, a step for agents that are lanes and all in play, or None.

    It takes a sequence of one action for each of the n `possible_agents`, in their order. A quiet step returns three
    values: the observations as one new array of shape (n, …), a sequence of n rewards, both in that order, and the
    infos, or None if they are empty. Any other step returns the same as `fast_step`. Until the next step,
    `observation(agent)` returns the latest observation of each agent.
    """
    return _beside_step(env, "step_rows", None)


# The rule.


def _beside_step(env: Env | MultiEnv, name: str, otherwise: Any) -> Any:
    """Returns the named method, which envoi calls in place of `step`; `otherwise` if a user overrides `step`.

    `step` counts as overridden if a subclass of the method's class defines `step`, or if it is patched onto the
    instance.
    """
    # Not by `vars(env)`: CPython 3.11 reads an object's attributes more slowly once its dict was asked for.
    if getattr(env.step, "__func__", None) is type(env).step:
        for kind in type(env).__mro__:
            if name in vars(kind):
                return getattr(env, name)
            if "step" in vars(kind):
                break
    return otherwise


def explain(env: Any) -> str:
    """Returns the source code that envoi generated for an environment's step, with a comment above each layer's lines.

    Equal layers give equal text. If envoi calls the environment's own `step` instead, the comment says so and where to
    look. Below the step of compiled lanes is the loop of their kernel.

    Args:
        env: A form of any framework, or a core environment (then its step as forms and wrappers call it).

    Raises:
        SpecError: `env` has no step.
    """
    step = getattr(env, "step", None)
    if not callable(step):
        raise SpecError(f"env: expected an environment, got {env!r}")
    if isinstance(env, Process):
        finish = SIX_VALUES if getattr(env, "batch_size", None) is None else VALUES_AND_ENDS
        step = step_around(cast("Any", env), lambda program: finish)
    text = source_of(step)
    if text is None:
        return f"def step(action):\n    # {_plain_title(env)}\n    return own_step(action)\n"
    compiled = [stage.source() for stage in program_of(cast("Any", getattr(env, "core", env))).stages]
    return "\n\n".join([text, *filter(None, compiled)])


def _plain_title(env: Any) -> str:
    """Returns the title of a step that envoi calls unchanged."""
    name = next(filter(None, (library_name(kind, "") for kind in type(env).__mro__)), "")
    more = "; see also explain(form.core)" if isinstance(getattr(env, "core", None), Process) else ""
    return f"{name}: its step is called as it is{more}" if name else "a step that is called as it is"
