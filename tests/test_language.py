"""Docstrings, comments, messages, test names and pages are in plain English, and in this field's terms."""

import re

import pytest
from prose import CODE, ROOT, flat, held, pages, passages, passages_of_python, python_files, relative

THIS = "tests/test_language.py"  # quotes what it bans

WORDS = re.compile(
    r"\b(anew|told|said|stands|hands|whoever|nobody|somebody|anybody|strangers?|of ours|goes on)\b", re.IGNORECASE
)
FIRST_WORDS = re.compile(r"(what|who|whether|nobody|somebody)\b", re.IGNORECASE)
DRAWS = re.compile(r"\b(draw|draws|drawn|drawing|drawings|drew)\b", re.IGNORECASE)
PICTURES = re.compile(
    r"\b(render\w*|picture\w*|image\w*|frame\w*|screen\w*|curve\w*|chart\w*|plot\w*|figure\w*|window\w*|diagram\w*|"
    r"pixel\w*|canvas\w*|table\w*|rgb_array)\b",
    re.IGNORECASE,
)


def offences(passage):
    """What in a passage breaks the rules, in words."""
    text = flat(passage.text)
    found = [f"{match[0]!r}" for match in WORDS.finditer(text)]
    if passage.kind == "docstring" and (first := FIRST_WORDS.match(text)):
        found.append(f"a docstring that begins with {first[0]!r}")
    sentences = re.split(r"(?<=[.;:|])\s", text)
    return found + [
        f"{match[0]!r} for random numbers"
        for sentence in sentences
        if not PICTURES.search(sentence)
        for match in DRAWS.finditer(sentence)
    ]


def offences_by_file():
    found = {}
    for path in [*python_files(*CODE), *pages()]:
        name = relative(path)
        broken = [
            f"{passage.line}: {passage.kind}: {offence}: {flat(passage.text)[:90]}"
            for passage in passages(path)
            for offence in offences(passage)
        ]
        if broken and name != THIS:
            found[name] = broken
    return found


def test_language_is_plain():
    held(offences_by_file())


@pytest.mark.parametrize(
    ("code", "is_offence"),
    [
        ('"""What a step gives."""', True),
        ("# a long comment that\n# goes\n# on", True),
        ('raise ValueError(f"{x}: was told nothing")', True),
        ("def test_a_strangers_wrapper(): ...", True),
        ('"""Draws a random number."""', True),
        ('"""Returns what a step gives; known beforehand."""', False),
        ('"""Draws a picture of the state."""', False),
        ('"""Calls `nobody`."""', False),
        ("x = 1  # goes\ny = 2\n# on", False),
    ],
)
def test_offences_are_found(code, is_offence):
    assert any(offences(passage) for passage in passages_of_python(code)) is is_offence


def test_the_glossary_defines_each_term_once():
    page = (ROOT / "docs" / "glossary.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| **")]
    terms = [term for row in rows for term in re.findall(r"\*\*(.+?)\*\*", row.split(" | ")[0])]
    assert len(terms) == len(set(terms)) > 30
    assert all(row.endswith(". |") for row in rows)
    assert "docs/glossary.md" in (ROOT / "README.md").read_text()
