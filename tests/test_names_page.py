"""The page of names lists each public name once: the essential ones, and the others by package."""

import re
from pathlib import Path

import envoi

PAGE = (Path(__file__).parents[1] / "docs" / "names.md").read_text()
ESSENTIAL, OTHERS = PAGE.split("## The others, by package")


def rows(section):
    """The rows of a section's table: the first cell, and the names of the second."""
    cells = re.findall(r"^\| (.+?) \| (`.*`) \|$", section, re.MULTILINE)
    return [(first, re.findall(r"`(\w+)`", names)) for first, names in cells]


def test_each_name_is_listed_once():
    listed = [name for section in (ESSENTIAL, OTHERS) for _, names in rows(section) for name in names]
    assert sorted(listed) == envoi.__all__


def test_the_essential_names_are_those_that_dir_shows():
    names = [name for _, names in rows(ESSENTIAL) for name in names]
    assert len(names) <= 45
    assert sorted({*dir(envoi)} - {"context", "models", "wrappers", "__doc__", "__version__"}) == sorted(names)


def test_each_other_name_is_of_its_package():
    for package, names in rows(OTHERS):
        for name in names:
            assert f"{getattr(envoi, name).__module__}.".startswith(f"{package.strip('`')}."), name
