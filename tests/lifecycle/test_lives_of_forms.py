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


def test_the_forms_are_of_all_frameworks_to_which_environments_can_be_exported():
    names = {type(forms.made(name))._framework for name in forms.FORMS}
    assert names == {name for name, row in FRAMEWORKS.items() if row.is_target}
