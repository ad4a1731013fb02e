"""The library and its tests keep to the budgets of docs/architecture.md."""

import size


def test_no_folder_is_over_its_budget():
    assert [*size.over()] == []


def test_each_file_of_the_library_counts_once():
    rows = size.budgets()
    counted = [file for row in rows if not row.is_sum for file in size.files_of(row, rows)]
    there = [file for folder in ("core", "adapters", "integrations") for file in (size.ROOT / folder).rglob("*.py")]
    assert sorted(counted) == sorted(there)
