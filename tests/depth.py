"""The depth of a test run: the examples of properties, and the files that take longest."""

from typing import Any

from hypothesis import settings

LONGEST = (
    "integrations/test_train.py",
    "integrations/test_check.py",
    "integrations/test_several_agents.py",
    "integrations/test_faults.py",
    "integrations/test_settings.py",
    "test_examples.py",
    "adapters/test_ecosystem.py",
    "integrations/test_killed_jobs.py",
    "integrations/test_damaged_files.py",
    "integrations/test_evaluation.py",
    "integrations/test_modules.py",
    "integrations/test_multi_agent_runner.py",
    "integrations/test_batched_runner.py",
    "integrations/test_exact_resume.py",
    "integrations/test_league.py",
    "adapters/test_requirements.py",
    "adapters/test_rllib_contexts.py",
)
"""The files that run first, longest first, so that no process is left with one of them at the end."""


def deep() -> bool:
    """Returns True in the profiles `full` and `search`."""
    return settings.get_current_profile_name() != "quick"


def examples(count: int, least: int = 20, **others: Any) -> settings:
    """Returns the settings of a property that needs `count` examples in the profiles `full` and `search`.

    In the quick profile it gets a tenth of them, but at least `least` (or all, if it needs fewer) and at most 100. Give
    less than 20 where an example takes most of a second.
    """
    if not deep():
        count = min(count, max(least, count // 10), 100)
    return settings(max_examples=count, **others)
