"""Forms and imports as subjects, of every framework in the table of forms.

A form lives as one to which nothing else was done. An import of a form also lives as the core environment inside.
"""

from dataclasses import replace
from functools import partial

import core_subjects
import forms
import numpy as np
from hypothesis import strategies as st
from machine import Subject

import envoi
from envoi.adapters.shared.introspection import Content

# Calls of forms: ("reset", seed, options, mask), ("step", seed of the action).


def calls(name):
    """Returns the strategy of calls of a form."""
    masks = st.none()
    if name in MASKED:
        some = st.lists(st.booleans(), min_size=forms.LANES, max_size=forms.LANES).map(tuple)
        masks = st.none() | some
    seeds = st.none() | st.integers(0, 3) | st.sampled_from([2**40, -1, 1.5, "1"])
    options = st.none() | st.just((("at", 0.5),))
    reset = st.tuples(st.just("reset"), seeds, options, masks)
    step = st.tuples(st.just("step"), st.integers(0, 9))
    return st.one_of(reset, step, step, step, step, step)


MASKED = [name for name, row in forms.FORMS.items() if row.begin is forms.begin_gym]
"""The forms some of whose lanes can be reset."""


def play(name, form, call):
    """Makes a call of `calls`."""
    row, (kind, seed, *rest) = forms.FORMS[name], call
    if kind == "step":
        return row.step(form, np.random.default_rng(seed))
    options, mask = rest
    given = None if options is None else dict(options)
    if mask is None:
        return row.begin(form, seed, given)
    return row.begin(form, seed, {**(given or {}), "reset_mask": np.array(mask)})


NAMES = (
    *("agents", "agent_selection", "terminations", "truncations", "rewards", "infos", "info", "reset_infos"),
    *("last", "np_random_seed", "num_agents", "metadata", "observation_spec", "action_spec", "get_info"),
    *("current_time_step", "state", "max_num_agents"),
)
"""Attributes of forms, or methods without arguments, that only look."""


def looks(name):
    """Returns what may be looked at."""
    form = forms.made(name)
    found = {one: partial(_read, one) for one in NAMES if hasattr(type(form), one) or hasattr(form, one)}
    several = forms.FORMS[name].kind == "several"
    of_core = core_subjects.SEVERAL if several else core_subjects.ONE
    inside = {f"core's {one}": partial(_of_core, look) for one, look in of_core.items() if one != "render"}
    return {**found, **inside, "render": lambda form: form.render(), "repr": lambda form: bool(repr(form))}


def _read(name, form):
    held = getattr(form, name)
    return held() if callable(held) else held


def _of_core(look, form):
    return look(form.core)


# The errors of the frameworks themselves: TF-Agents' and PettingZoo's for calls that they refuse.
ERRORS = (envoi.EnvoiError, ValueError, AttributeError, KeyError)


def form(name):
    """Returns the subject of a form."""
    return Subject(
        partial(forms.made, name),
        partial(play, name),
        calls(name),
        looks(name),
        lambda form: Content([form]),
        lambda form, held: held.put_back([form]),
        errors=ERRORS,
        begins_by_step=forms.FORMS[name].step is forms.step_dm,
    )


def imported(name):
    """Returns the subject of an import of a third-party environment, whose generator only some frameworks reach."""
    takes_generator = hasattr(forms.FORMS[name].strange, "_np_random")
    return core_subjects.subject(partial(forms.imported, name), takes_generator=takes_generator)


def returned(name):
    """Returns the subject of a form that was read again, which lives as the core environment inside does.

    RLlib's forms make a seed for each worker of the seed that they are given, those of Stable-Baselines3 one for each
    lane, and in PettingZoo's AEC one agent acts.
    """
    differs = name.startswith("rllib") or name in ("pettingzoo_aec", "sb3")
    reference = None if differs else partial(forms.core_of, name)
    subject = core_subjects.subject(partial(_returned, name), reference=reference)
    # Where lanes begin their next episode in the step that ends one, their state and picture are of that.
    first = name in ("vector same step", "sb3")
    same = ("observation",) if first else ("observation", "state", "agents", "observations", "observation of one")
    looks = {one: look for one, look in subject.looks.items() if reference is None or one in same}
    return replace(subject, looks=looks)


def _returned(name):
    return forms.FORMS[name].read(forms.made(name))


SUBJECTS = {
    **{f"form of {name}": partial(form, name) for name in forms.FORMS},
    **{f"import of {name}": partial(imported, name) for name in forms.FORMS},
    **{f"core to {name} to core": partial(returned, name) for name in forms.FORMS},
}
