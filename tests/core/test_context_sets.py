"""`ContextSet`: contexts by id as one value, which stays as it is and which no config merges."""

import copy
import pickle
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envoi.context import ContextSet, load_contexts, save_contexts

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
