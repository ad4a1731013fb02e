"""Each part of Ray that envoi relies on although Ray does not document it: where a new Ray moves one, this says so."""

import inspect
from importlib import import_module

import pytest
from ray_internals import ATTRIBUTES, METHODS, TEXTS, find, has_attribute, users, uses

CALLED = [(owner, path, taken, advice) for owner, methods, advice in METHODS for path, taken in methods.items()]
HELD = [(owner, name, advice) for owner, names, advice in ATTRIBUTES for name in names.split()]
NAMED = [(owner, name) for owner, name, *_ in (*CALLED, *HELD)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_methods_and_functions_are_where_envoi_expects_them():
    gone = []
    for owner, path, parameters, advice in CALLED:
        where = f"{owner}.{path}, on which {', '.join(users(path))} rely,"
        found = find(owner)
        for name in path.split("."):
            found = getattr(found, name, None)
        if found is None:
            gone.append(f"{where} is gone in this Ray; {advice}")
            continue
        taken = inspect.signature(inspect.unwrap(found)).parameters
        if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in taken.values()):
            missing = [name for name in parameters.split() if name not in taken]
            if missing:
                gone.append(f"{where} takes {list(taken)} in this Ray, not {missing}; {advice}")
    assert not gone, "\n".join(gone)


def test_attributes_are_where_envoi_expects_them():
    gone = [
        f"{owner}.{name}, on which {', '.join(users(name))} rely, is gone in this Ray; {advice}"
        for owner, name, advice in HELD
        if not has_attribute(find(owner), name)
    ]
    assert not gone, "\n".join(gone)


def test_code_says_what_envoi_expects():
    gone = [
        f"{module} does not contain `{text}` in this Ray; {advice}"
        for module, text, advice in TEXTS
        if text not in inspect.getsource(import_module(module))
    ]
    assert not gone, "\n".join(gone)


def test_every_use_of_a_private_name_of_rays_has_a_row():
    without = [
        f"{use.place} uses `{use.name}`, a private name of Ray's; use a documented one, or add a row to "
        "ray_internals.py with what to do when it moves"
        for use in uses()
        if not any(use.is_in(*row) for row in NAMED)
    ]
    assert not without, "\n".join(without)


def test_every_row_is_about_something_that_envoi_uses():
    private = {use.name for use in uses()}
    unused = [
        name for _, name in NAMED if name.startswith("_") and name[1] != "_" and name.split(".")[0] not in private
    ]
    unused += [name for _, name in NAMED if not users(name) and name != "__setattr__"]
    assert not unused, f"envoi no longer uses {unused}; remove their rows"
