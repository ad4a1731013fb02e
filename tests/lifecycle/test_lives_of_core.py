"""Core environments, wrapped or not, live their histories, whatever else is asked of them in between."""

import pytest
from core_subjects import SUBJECTS
from machine import live


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", SUBJECTS)
def test_values_follow_from_the_history_alone(name):
    live(SUBJECTS[name]())
