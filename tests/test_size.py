"""The library and its tests keep to the budgets of docs/architecture.md."""

import re

import size


def test_no_folder_is_over_its_budget():
    assert [*size.over()] == []


def test_each_file_of_the_library_counts_once():
    rows = size.budgets()
    counted = [file for row in rows if not row.is_sum for file in size.files_of(row, rows)]
    there = [file for folder in ("core", "adapters", "integrations") for file in (size.ROOT / folder).rglob("*.py")]
    assert sorted(counted) == sorted(there)


def test_too_many_lines_are_found(monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("## How much there may be\n\n| `core` | 10 | | 5 |\n| **`tests`** | 900,000 | 2 | 5 |\n")
    monkeypatch.setattr(size, "PAGE", page)
    lines, files = size.over()
    assert re.fullmatch(r"core: [\d,]+ lines, 10 allowed", lines)
    assert re.fullmatch(r"tests: \d+ files, 2 allowed", files)
