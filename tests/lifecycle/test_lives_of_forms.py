"""Forms and imports live their histories, whatever else is asked of them in between."""

import forms
import pytest
from form_subjects import SUBJECTS
from machine import live

from envoi.adapters import FRAMEWORKS

pytestmark = [
    pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning"),
    pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.DroppedOptionsWarning"),
]


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", SUBJECTS)
def test_values_follow_from_the_history_alone(name):
    live(SUBJECTS[name]())


def test_every_framework_to_which_environments_can_be_exported_is_here():
    ours = {row.make if isinstance(row.make, type) else row.make.func if hasattr(row.make, "func") else row.make(row.core() if row.core else forms.CORES[row.kind]()).__class__ for row in forms.FORMS.values()}
    assert {kind._framework for kind in ours} >= {name for name, row in FRAMEWORKS.items() if row.is_target}
