"""Sets of contexts: filled once, and the same after a file of any kind."""

import copy
import enum
import math
import os
import pickle
import struct
import sys
from collections.abc import Mapping

import numpy as np
import pytest
from depth import examples
from hypothesis import example, given
from hypothesis import strategies as st

import envoi
from envoi import ContextError, ContextSpace, UniformFloat
from envoi.context import ContextSet, fill, load_contexts, save_contexts

SUFFIXES = (".yaml", ".yml", ".json", ".csv")
every_format = pytest.mark.parametrize("suffix", SUFFIXES)

TRICKY = [
    "", " ", " a", "a ", "0", "-1", "+1", "007", "1.5", "1e-7", "1.", ".5", "nan", "inf", "-inf", ".inf", ".nan",
    "0x1f", "0o17", "1_000", "1:30", "2020-01-01", "true", "True", "yes", "no", "on", "null", "~", "None", '"', '""',
    '"a"', '"3"', "a,b", "a;b", "a\nb", "\r", "a\r\nb", "\t", "a: b", "- a", "#", "&a", "*a", "!x", "{}", "[1]", "<<",
    "=", "ü", "😀", "context_id ", "\u2028", "\x85", "\x00", "'", "?", "|", ">", "%", "@", "`", "\ufeff", "\\",
    "x" * 200, "a  b " * 40,
]  # fmt: skip
texts = st.sampled_from(TRICKY) | st.text(st.characters(codec="utf-8"), max_size=6)
integers = st.integers(-(2**70), 2**70) | st.integers(-3, 12)
floats = st.floats() | st.sampled_from([1e-7, 1e16, 1e22, 0.1, -0.0, 5e-324, 1.7976931348623157e308])
values = st.none() | st.booleans() | integers | floats | texts
words = st.text(st.characters(categories=["L"]), min_size=1, max_size=6)
numbers = integers | floats
sets = st.dictionaries(texts | integers, st.dictionaries(texts, values, max_size=4), max_size=4)


def same(first, second):
    """Equal with types, order and the bits of floats."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return same(list(first), list(second)) and same(list(first.values()), list(second.values()))
    if isinstance(first, list):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, float):
        return struct.pack("d", first) == struct.pack("d", second) or (math.isnan(first) and math.isnan(second))
    return first == second


def by_column(contexts):
    """Contexts as CSV gives them back: features in the order of the columns."""
    names = dict.fromkeys(name for context in contexts.values() for name in context)
    return {key: {name: context[name] for name in names if name in context} for key, context in contexts.items()}


@every_format
@examples(60)
@given(contexts=sets)
@example(contexts={text: {text: text} for text in TRICKY})
@example(contexts={3: {"x": 1.0, "y": 1}, "a": {"y": math.inf, "z": -math.inf}, "b": {"x": math.nan}, "": {}})
def test_a_file_gives_back_what_was_saved_or_refuses(tmp_path_factory, suffix, contexts):
    path = tmp_path_factory.getbasetemp() / f"set{suffix}"
    path.unlink(missing_ok=True)
    was = copy.deepcopy(contexts)
    try:
        save_contexts(path, contexts)
    except ContextError:
        assert not path.exists()
    else:
        assert same(load_contexts(path), by_column(contexts) if suffix == ".csv" else contexts)
    assert same(contexts, was)


@every_format
@given(contexts=st.dictionaries(st.integers(), st.dictionaries(words, numbers, max_size=4), min_size=1, max_size=4))
def test_every_format_holds_numbers(tmp_path_factory, suffix, contexts):
    path = tmp_path_factory.getbasetemp() / f"numbers{suffix}"
    save_contexts(path, contexts)
    assert same(load_contexts(path), by_column(contexts) if suffix == ".csv" else contexts)


@pytest.mark.parametrize("text", [text for text in TRICKY if text not in ("\x85", "\u2028")])
def test_yaml_and_json_hold_every_text(tmp_path, text):
    for path in (tmp_path / "set.yaml", tmp_path / "set.json"):
        save_contexts(path, {"a": {"x": text, text: 1}})
        assert load_contexts(path) == {"a": {"x": text, text: 1}}


@pytest.mark.parametrize(
    ("suffix", "contexts", "message"),
    [
        (".json", {"3": {}}, r"contexts: the id '3' would be read back as 3; use a \.yaml file"),
        (".csv", {"a": {"x": "1.5"}}, r"contexts\['a'\]\['x'\]: '1\.5' would be read back as 1\.5"),
        (".csv", {"a": {"x": " b"}}, r"contexts\['a'\]\['x'\]: ' b' would be read back as 'b'"),
        (".csv", {"a": {"x": ""}}, r"contexts\['a'\]\['x'\]: '' would be read back as nothing"),
        (".csv", {"": {"x": 1}}, r"line 2: expected an id and at most 1 cells, got \['', '1'\]"),
    ],
)
def test_what_would_be_read_back_differently_is_refused(tmp_path, suffix, contexts, message):
    with pytest.raises(ContextError, match=message):
        save_contexts(tmp_path / f"set{suffix}", contexts)
    save_contexts(tmp_path / "set.yaml", contexts)
    assert same(load_contexts(tmp_path / "set.yaml"), contexts)


class Floor(enum.StrEnum):
    ICE = "ice"


@every_format
def test_scalars_of_numpy_and_subclasses_are_written_as_what_they_are(tmp_path, suffix):
    path = tmp_path / f"set{suffix.upper()}"
    context = {"a": np.float32(0.1), "b": np.int8(3), "c": np.bool_(True), "d": np.str_("x"), "e": Floor.ICE, "f": None}
    save_contexts(path, {np.int64(4): context, np.str_("k"): {np.str_("a"): np.float64(1e-7)}})
    expected = {4: {"a": float(np.float32(0.1)), "b": 3, "c": True, "d": "x", "e": "ice", "f": None}, "k": {"a": 1e-7}}
    assert same(load_contexts(path), expected)


@every_format
def test_a_list_is_saved_under_its_numbers_and_checked_against_a_space(tmp_path, suffix):
    space = ContextSpace([UniformFloat("length", 0.1, 2), UniformFloat("mass", 0, 1)])
    contexts = space.sample(4, seed=0)
    path = tmp_path / f"set{suffix}"
    save_contexts(str(path), contexts, space=space)
    assert same(load_contexts(str(path), space=list(space.features.values())), dict(enumerate(contexts)))
    save_contexts(path, {"far": {"length": 3.0}})
    with pytest.raises(
        ContextError, match=rf"set{suffix}: contexts\['far'\]\['length'\]: expected a number from 0.1 to"
    ):
        load_contexts(path, space=space)
    with pytest.raises(ContextError, match=r"contexts\[0\]\['lenght'\]: no such feature; did you mean 'length'\?"):
        save_contexts(path, [{"lenght": 1.0}], space=space)


HAND_WRITTEN = {
    ".csv": 'context_id,gravity, length ,floor,"a,b"\r\n0,1e-7,,wood,\r\n\r\n b , -3 ,.5,ice,TRUE\r\n007,inf\r\n',
    ".json": '\ufeff{"0": {"gravity": 1e-7, "floor": "wood"}, "b": {"gravity": -3, "length": 0.5, "floor": "ice", '
    '"a,b": true}, "007": {"gravity": Infinity}}',
    ".yaml": "# a set\n0: {gravity: 1e-7, floor: wood}\nb:\n  gravity: -3\n  length: .5\n  floor: ice\n  a,b: true\n"
    "'007':\n  gravity: .inf\n",
}


@pytest.mark.parametrize("suffix", HAND_WRITTEN)
def test_what_a_person_or_a_spreadsheet_wrote_means_what_it_says(tmp_path, suffix):
    path = tmp_path / f"set{suffix}"
    path.write_bytes(HAND_WRITTEN[suffix].encode())
    expected = {
        0: {"gravity": 1e-7, "floor": "wood"},
        "b": {"gravity": -3, "length": 0.5, "floor": "ice", "a,b": True},
        "007": {"gravity": math.inf},
    }
    assert same(load_contexts(path), expected)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.ymal", "{}", r"a\.ymal: expected a file of a known kind, got '\.ymal'; did you mean '\.y"),
        ("a", "{}", r"got ''; there are: \.csv, \.json, \.yaml, \.yml"),
        ("a.yaml", "# nothing\n", r"expected contexts by id, got an empty file"),
        ("a.json", '{"a": {\n"x": 1,,}}', r"a\.json: Expecting property name .* line 2 column 8"),
        ("a.json", "[1]", r"contexts\[0\]: expected a mapping of feature names to values, got 1"),
        ("a.json", '{"a": {"x": 1}, "a": {}}', r"expected each key once, got 'a' twice"),
        ("a.json", '{"a": {"x": 1, "x": 2}}', r"expected each key once, got 'x' twice"),
        ("a.json", '{"0": {"x": [1]}}', r"contexts\[0\]\['x'\]: expected a number, a string, .* got \[1\]"),
        ("a.yaml", "a: {x: 1\nb: 2", r"a\.yaml: not YAML: .* line 2, column 2"),
        ("a.yaml", "a: {x: 1}\nb: {x: 2}\na: {}", r"line 3: expected each key once, got 'a' twice"),
        ("a.yaml", "a:\n  x: 1\n  x: 2", r"line 3: expected each key once, got 'x' twice"),
        ("a.yaml", "a: {x: 2020-01-01}", r"contexts\['a'\]\['x'\]: expected a number, a string, .* datetime"),
        ("a.yaml", "a: {x: !!python/name:os.system }", r"not YAML: could not determine a constructor .* line 1"),
        ("a.yaml", "1.5: {}", r"contexts: expected ids that are strings or integers, got 1\.5"),
        ("a.csv", "id,x\n0,1", r"a\.csv: line 1: expected columns 'context_id' and one for each .* got \['id', 'x'\]"),
        ("a.csv", "context_id,x\n0,1\n1,2\n0,3\n", r"line 4: expected each id once, got 0 twice"),
        ("a.csv", "context_id,x\na,1,2\n", r"line 2: expected an id and at most 1 cells, got \['a', '1', '2'\]"),
        ("a.csv", b"context_id\n\xff", r"a\.csv: 'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_the_place_and_what_was_expected(tmp_path, name, text, message):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ContextError, match=message):
        load_contexts(tmp_path / name)


@every_format
@pytest.mark.parametrize(
    ("contexts", "message"),
    [
        ({"a": {"x": (1, 2)}}, r"contexts\['a'\]\['x'\]: expected a number, a string, a bool or None, got \(1, 2\)"),
        ({True: {}}, r"contexts: expected ids that are strings or integers, got True"),
        ({"a": {3: 1}}, r"contexts\['a'\]: expected names of features as strings, got 3"),
        (3, r"contexts: expected a mapping of ids to contexts, or a list of contexts, got 3"),
    ],
)
def test_what_cannot_be_written_is_refused_and_the_old_file_stays(tmp_path, suffix, contexts, message):
    path = tmp_path / f"set{suffix}"
    save_contexts(path, {"old": {"x": 1}})
    with pytest.raises(ContextError, match=message):
        save_contexts(path, contexts)
    assert load_contexts(path) == {"old": {"x": 1}}
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_breaks_off_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "set.json"
    save_contexts(path, {"old": {}})

    def full(descriptor):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        save_contexts(path, {"new": {}})
    assert load_contexts(path) == {"old": {}}
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    save_contexts(real, {"old": {}})
    link.symlink_to(real)
    save_contexts(link, {"new": {}})
    assert link.is_symlink()
    assert load_contexts(real) == load_contexts(link) == {"new": {}}


def test_without_pyyaml_a_yaml_file_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "set.yaml"
    save_contexts(path, {0: {"x": 1}})
    monkeypatch.setitem(sys.modules, "yaml", None)
    for call in (lambda: load_contexts(path), lambda: save_contexts(path, {})):
        with pytest.raises(envoi.MissingBackend, match=r"pyyaml is not installed; pip install 'envoi\[cli\]'"):
            call()
    save_contexts(tmp_path / "set.json", {0: {"x": 1}})
    assert load_contexts(tmp_path / "set.json") == {0: {"x": 1}}


names = st.text(max_size=2)
contexts_of_names = st.dictionaries(
    st.integers() | names, st.dictionaries(names, st.integers(), max_size=3), max_size=4
)


@given(contexts_of_names, st.dictionaries(names, st.integers(), max_size=3))
def test_filling_gives_every_context_the_defaults_first_and_in_order(contexts, default):
    was = copy.deepcopy((contexts, default))
    filled = fill(contexts, default)
    assert same((list(contexts.items()), list(default.items())) == (list(was[0].items()), list(was[1].items())), True)
    assert list(filled) == (list(contexts) or [0])
    extras = dict.fromkeys(name for context in contexts.values() for name in context if name not in default)
    for key, full in filled.items():
        own = contexts.get(key, {})
        assert full == {**default, **own}
        assert list(full) == [*default, *(name for name in extras if name in own)]
        full["mine"] = 1  # a new dict each
    assert (contexts, default) == was


def test_no_contexts_are_the_default_one_and_a_list_counts():
    assert fill({}, {"x": 1}) == fill(None, {"x": 1}) == fill([], {"x": 1}) == {0: {"x": 1}}
    assert fill([{"x": 2}, {}], {"x": 1}) == {0: {"x": 2}, 1: {"x": 1}}
    assert same(fill({1: {"b": 0, "a": 0}, 2: {"a": 1, "b": 1}}, {})[2], {"b": 1, "a": 1})
    for wrong in (3, "ab", [1], {"a": [1]}, {"a": {1: 2}}):
        with pytest.raises(ContextError, match="contexts"):
            fill(wrong, {})


MASSES = {"a": {"m": 2.0}, 7: {"m": 1.0, "l": 0.5}}
VALUES = st.integers(-9, 9) | st.floats(allow_nan=False) | st.text(max_size=3) | st.booleans()
CONTEXTS = st.dictionaries(st.integers() | st.text(), st.dictionaries(st.text(), VALUES, max_size=3), max_size=7)


@given(CONTEXTS)
def test_a_set_is_a_mapping_of_its_contexts_and_equal_to_others_of_the_same(contexts):
    held = ContextSet(contexts)
    assert isinstance(held, Mapping)
    assert not isinstance(held, dict)  # which is what RLlib merges
    assert (dict(held), list(held), len(held)) == (contexts, list(contexts), len(contexts))
    for twin in (ContextSet(held), copy.copy(held), copy.deepcopy(held), pickle.loads(pickle.dumps(held))):
        assert twin == held
        assert hash(twin) == hash(held)
    more = ContextSet({**contexts, ("one", "more"): {}})
    assert held != more
    assert held != contexts
    if len(contexts) > 1:
        assert ContextSet(dict(reversed(contexts.items()))) != held  # a round would go another way


def test_a_set_is_not_changed_through_what_it_was_made_of_or_gives():
    contexts = copy.deepcopy(MASSES)
    held = ContextSet(contexts)
    contexts["a"]["m"] = 9.0
    contexts["b"] = {}
    held["a"]["m"] = 9.0
    assert held == ContextSet(MASSES)
    with pytest.raises(TypeError):
        held["a"] = {}
    with pytest.raises(KeyError):
        held["c"]


def test_a_set_takes_lists_files_and_arrays(tmp_path):
    path = tmp_path / "contexts.yaml"
    save_contexts(path, ContextSet(MASSES))
    assert load_contexts(path) == MASSES
    for file in (path, str(path)):
        assert ContextSet(file) == ContextSet(MASSES)
    assert ContextSet([{"m": 1.0}]) == ContextSet({0: {"m": 1.0}})
    one, same, other = (ContextSet([{"wind": np.array(wind)}]) for wind in ([1.0, 2.0], [1.0, 2.0], [1.0, 3.0]))
    assert one == same
    assert one != other


def test_a_set_shows_its_contexts_while_they_are_few():
    assert repr(ContextSet(MASSES)) == f"ContextSet({MASSES!r})"
    assert eval(repr(ContextSet(MASSES))) == ContextSet(MASSES)
    assert repr(ContextSet([{"m": 1.0}] * 20)) == "<ContextSet of 20 contexts: 0, 1, 2, 3, 4, …>"
