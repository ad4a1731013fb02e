"""The tables "What is lost" in the packages of frameworks are true: every row happens, and nothing else is lost."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import nested
import pytest
import scripted_games
from depth import examples
from gymnasium import spaces
from hypothesis import HealthCheck, example, given
from scripted import Line, Scripted, Shaped

import envoi
from envoi import Array, Discrete, Foreign, Graph, LossyConversion, MultiBinary, MultiDiscrete, OneOf, Sequence, Text
from envoi.adapters import FRAMEWORKS, TARGETS, convert, load, losses
from envoi.adapters.dm_env.specs import Strings
from envoi.adapters.shared.loss import NarrowingWarning

pytestmark = pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning")

CHOICE = Discrete(2)
GRAPH = Graph(Array((2,)))


class Row(NamedTuple):
    """A row of a table: what is lost, what of it, and whether that is `refused`, `narrowed` or `flattened`."""

    what: str
    field: str
    how: str


class Case(NamedTuple):
    """An environment in which a row happens.

    Attributes:
        env: Makes it.
        path: Where.
        arguments: Of the conversion.
    """

    env: Callable[[], Any]
    path: str
    arguments: dict = {}


def seen(spec):
    """A leaf in an observation, at a path that is not its root."""
    return Case(lambda: Shaped({"a": [spec]}, CHOICE), "observation['a'][0]")


def done(spec):
    """A leaf in an action."""
    return Case(lambda: Shaped(Array((2,)), {"a": [spec]}), "action['a'][0]")


def declared(**specs):
    """An environment that declares other rewards or discounts."""

    def make():
        env = Scripted(Line())
        for name, spec in specs.items():
            setattr(env, name, spec)
        return env

    return make


def different():
    """A game of agents that see different things."""
    return scripted_games.ScriptedGame()


def flat_seen(spec):
    """A leaf in an observation of one level."""
    return Case(lambda: Shaped({"a": spec}, CHOICE), "observation['a']")


def flat_done(spec):
    """An action of one leaf."""
    return Case(lambda: Shaped(Array((2,)), spec), "action")


class Unrestarting(envoi.BatchEnv):
    """A batch that is only reset as a whole."""

    observation_spec, action_spec = Array((2,)), CHOICE
    restarts = frozenset()
    state = observation = None


FOREIGN = Foreign(spaces.Discrete(2))
STRUCTURED = (Text(3), Sequence(CHOICE), GRAPH, OneOf([CHOICE]))
ODD = (Foreign(type("Own", (), {"contains": bool, "seed": int, "sample": int})()), Strings((2,)))
SEVERAL = Case(different, "agents")


def of_gymnasium(agent=""):
    """The rows of gymnasium's spaces, where they are those of an agent."""

    def placed(case):
        return case._replace(path=case.path.replace("['a'][0]", f"{agent}['a'][0]"))

    return {row: [placed(case) for case in cases] for row, cases in GYMNASIUM.items()}


def gymnasium_rows(seen=seen, done=done, unknown=ODD):
    return {
        Row("complex `Array` leaves", "dtype", "refused"): [
            seen(Array(2, "complex64")),
            done(Array((), "complex128")),
        ],
        Row("`MultiBinary` leaves with a size of 0", "shape", "refused"): [seen(MultiBinary((2, 0)))],
        Row(
            "`Discrete`, `MultiDiscrete` leaves in a dtype too narrow for gymnasium's own arithmetic",
            "dtype",
            "refused",
        ): [seen(Discrete(256, dtype="uint8")), done(MultiDiscrete([256], dtype="uint8"))],
        Row("leaves that only another framework knows", "type", "refused"): [seen(leaf) for leaf in unknown],
    }


GYMNASIUM = gymnasium_rows()

CASES = {
    "gymnasium": {**GYMNASIUM, Row("several agents", "number", "refused"): [SEVERAL]},
    "gymnasium_vector": {
        **GYMNASIUM,
        Row("a batch whose lanes cannot be reset as the auto-reset mode requires", "restarts", "refused"): [
            Case(lambda: Unrestarting(2), "autoreset")
        ],
        Row("several agents of different spaces", "spaces", "refused"): [SEVERAL],
        Row("several agents that take turns", "turns", "refused"): [Case(lambda: load("envoi:nim"), "agents")],
    },
    "dm_env": {
        Row("`Sequence`, `Graph`, `OneOf` leaves", "type", "refused"): [
            *(seen(leaf) for leaf in STRUCTURED[1:]),
            *(Case(declared(**{f"{what}_spec": {"a": GRAPH}}), f"{what}['a']") for what in ("reward", "discount")),
        ],
        Row("leaves that only another framework knows", "type", "refused"): [seen(ODD[0])],
        Row("several agents", "number", "refused"): [SEVERAL],
    },
    "tf_agents": {
        Row("`Text`, `Sequence`, `Graph`, `OneOf` leaves", "type", "refused"): [seen(leaf) for leaf in STRUCTURED],
        Row("leaves that only another framework knows", "type", "refused"): [seen(leaf) for leaf in ODD],
        Row("complex and longer than 64-bit leaves", "dtype", "refused"): [
            seen(Array((2,), "complex64")),
            done(Array((2,), "longdouble")),
        ],
        Row("dicts whose keys cannot be sorted", "keys", "refused"): [
            Case(lambda: Shaped({"a": {1: CHOICE, "b": CHOICE}}, CHOICE), "observation['a']")
        ],
        Row("float64, and 32-bit and wider integer, rewards and discounts", "precision", "narrowed"): [
            Case(declared(), "reward"),
            Case(declared(reward_spec=Array((2,), "int32")), "reward"),
            Case(declared(discount_spec=Array((), "float64", 0, 1)), "discount"),
        ],
        Row("several agents", "number", "refused"): [SEVERAL],
    },
    "pettingzoo": of_gymnasium("['agent_0']"),
    "pettingzoo_aec": {
        **of_gymnasium("['agent_0']"),
        Row("rewards that are dicts, lists or tuples", "type", "refused"): [
            Case(declared(reward_spec={"a": Array(())}), "reward['agent_0']")
        ],
    },
    "sb3": {
        **gymnasium_rows(flat_seen, flat_done, (*ODD, FOREIGN)),
        Row("`Text`, `Sequence`, `Graph`, `OneOf` leaves", "type", "refused"): [
            *(flat_seen(leaf) for leaf in STRUCTURED),
            flat_done(Text(3)),
        ],
        Row("dicts, lists and tuples inside of others in observations", "nesting", "refused"): [
            flat_seen({"b": Array((2,))}),
            flat_seen([CHOICE]),
            flat_seen(()),
        ],
        Row("actions that are dicts, lists or tuples", "nesting", "refused"): [
            flat_done({"b": CHOICE}),
            flat_done([CHOICE]),
            flat_done((CHOICE, CHOICE)),
        ],
        Row("`Discrete`, `MultiDiscrete` leaves that do not start at 0", "start", "refused"): [
            *(of(leaf) for of in (flat_seen, flat_done) for leaf in (Discrete(3, start=5), MultiDiscrete([2], [1]))),
            flat_done(MultiDiscrete([2, 3], [0, -1])),
        ],
        Row("`Array` observations of shape (), `MultiDiscrete` leaves not of one axis", "shape", "refused"): [
            flat_seen(Array((), "bool")),
            *(of(MultiDiscrete([[2, 3]])) for of in (flat_seen, flat_done)),
        ],
        Row("rewards that are not one number", "shape", "refused"): [
            Case(declared(action_spec=CHOICE, reward_spec=Array((2,))), "reward"),
            Case(declared(action_spec=CHOICE, reward_spec={"a": Array(())}), "reward"),
        ],
        Row("float64, and 32-bit and wider integer, rewards", "precision", "narrowed"): [
            Case(declared(action_spec=CHOICE), "reward"),
            Case(declared(action_spec=CHOICE, reward_spec=Array((), "int32")), "reward"),
        ],
        Row("a batch whose lanes cannot be reset in the step of their end", "restarts", "refused"): [
            Case(lambda: Unrestarting(2), "lanes")
        ],
        Row("several agents of different spaces", "spaces", "refused"): [SEVERAL],
        Row("several agents that take turns", "turns", "refused"): [Case(lambda: load("envoi:nim"), "agents")],
    },
    "rllib": {
        Row("`Text`, `Sequence`, `Graph`, `OneOf` leaves, complex arrays", "type", "refused"): [
            *(seen(leaf) for leaf in STRUCTURED),
            seen(Array((2,), "complex64")),
            done(Text(3)),
        ],
        Row("leaves that only another framework knows", "type", "refused"): [seen(leaf) for leaf in ODD],
        Row("observations or actions of no numbers at all", "size", "refused"): [
            Case(lambda: Shaped(Array((0,)), CHOICE), "observation"),
            Case(lambda: Shaped(Array((2,)), Array((0,))), "action"),
            Case(lambda: Shaped(Array((2,)), {}), "action"),
        ],
        Row("integer `Array` actions without bounds, or of more than `MAX_INTEGERS` values", "bounds", "refused"): [
            done(Array((2,), "int64")),
            done(Array((2,), "int64", 0)),
            done(Array((2,), "int32", 0, 4096)),
        ],
        Row("rewards that are not one number", "shape", "refused"): [Case(declared(reward_spec=Array((2,))), "reward")],
        Row("float64 observations and actions", "precision", "narrowed"): [
            seen(Array((2,), "float64")),
            done(Array((2,), "float64")),
        ],
        Row("integer observations beyond 2²⁴ that are not one-hot", "precision", "narrowed"): [
            seen(Array((2,), "int64")),
            seen(Discrete(2**30)),
        ],
        Row("observations of two axes or more, but images as above", "shape", "flattened"): [
            seen(Array((2, 2))),
            seen(Array((84, 84, 3), "uint8")),  # an image, but not alone
            Case(lambda: Shaped(Array((210, 160, 3), "uint8"), CHOICE), "observation"),
        ],
    },
}
"""An environment for each row of each table."""

KNOWN = {row: cases for rows in reversed(CASES.values()) for row, cases in rows.items()}
"""The same by row alone, for the tables of other frameworks; of equal rows the cases of the first framework."""


def table(name):
    """The rows of a package's table."""
    text = FRAMEWORKS[name].load().__doc__
    if "What is lost: nothing." in text:
        return set()
    found = re.search(r"What is lost:\n\n\| what \| field \| how \|\n\|---\|---\|---\|\n((?:\|.*\|\n)+)", text)
    assert found, f"{name}: no table"
    return {Row(*(cell.strip() for cell in line.strip("|\n").split(" | "))) for line in found[1].splitlines()}


for name in TARGETS:
    if name not in CASES:
        CASES[name] = {row: KNOWN[row] for row in table(name) if row in KNOWN}


def test_every_target_has_its_cases():
    assert set(CASES) == set(TARGETS)


@pytest.mark.parametrize("name", TARGETS)
def test_the_table_has_exactly_the_rows_that_are_tried(name):
    assert table(name) == set(CASES[name])
    assert {row.how for row in table(name)} <= {"refused", "narrowed", "flattened"}


def of_creator(form):
    """The form itself, where a conversion gives what makes it."""
    return form() if callable(form) else form


@pytest.mark.parametrize(
    ("name", "row", "case"),
    [
        pytest.param(name, row, case, id=f"{name}: {row.what} {index}")
        for name, rows in CASES.items()
        for row, cases in rows.items()
        for index, case in enumerate(cases)
    ],
)
def test_a_row_happens_as_it_says(name, row, case):
    env = case.env()
    found = [loss for loss in losses(env, name) if loss.field == row.field and loss.path.startswith(case.path)]
    assert found, [str(loss) for loss in losses(env, name)]
    assert all(loss.refused is (row.how == "refused") for loss in found)
    assert all(loss.target for loss in found)
    if row.how == "refused":
        with pytest.raises(LossyConversion) as caught:
            of_creator(convert(case.env(), name, **case.arguments))
        assert caught.value.path.startswith(case.path)
        assert caught.value.field == row.field
    elif row.how == "flattened":  # without a warning: all numbers are there
        of_creator(convert(case.env(), name, **case.arguments))
    else:
        with pytest.warns(NarrowingWarning, match=re.escape(case.path)):
            of_creator(convert(case.env(), name, **case.arguments))


@pytest.mark.parametrize("name", TARGETS)
@examples(60, suppress_health_check=[HealthCheck.too_slow])
@example(seen=Array((), "bool"), done={"b": Text(1, charset="ab"), 3: Array((), "bool")})
@given(seen=nested.specs, done=nested.specs)
def test_what_losses_lists_is_what_a_conversion_refuses(name, seen, done):
    env = Shaped(seen, done)
    told = losses(env, name)
    fields = {(row.field, row.how == "refused") for row in table(name)}
    assert all((loss.field, loss.refused) in fields for loss in told)
    refused = {(loss.path, loss.field) for loss in told if loss.refused}
    if not refused:
        of_creator(convert(env, name))
        return
    with pytest.raises(LossyConversion) as caught:
        of_creator(convert(env, name))
    assert (caught.value.path, caught.value.field) in refused
