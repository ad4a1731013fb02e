"""What a check found, as a table of text, as JSON and as a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..rllib.run_folder import write_atomically
from .requirement import RAN, Result, Status

ENV = "env"
"""The subject of results about the environment itself."""

MARKS: dict[Status, str] = {
    "passed": "✓",
    "failed": "✗",
    "remark": "!",
    "refused": "refused",
    "narrowed": "narrowed",
    "not installed": "not installed",
    "skipped": "·",
}
"""How a table says a status; it is empty where a requirement is not about a framework's form."""

LEGEND = "✓ passed   ✗ failed   ! remark   · does not apply, or cannot be told"

ORDER: tuple[Status, ...] = ("failed", "remark", "refused", "narrowed", "not installed")
"""The statuses with reasons that are listed below a table."""


@dataclass(frozen=True)
class Report:
    """What a check found.

    Attributes:
        env: What was checked.
        api: The API by which the environment itself was played.
        results: One for each requirement and subject.
        columns: The subjects: `"env"`, then the frameworks.
        keys: The requirements, in their order.
        seed: The one that the seeds follow which were used.
        episodes: How many episodes were played each time.
        steps: The most steps of an episode.
        seconds: How long it took.
    """

    env: str
    api: str
    results: tuple[Result, ...]
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    seed: int
    episodes: int
    steps: int
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[Result, ...]:
        """What the environment breaks."""
        return self.having("failed")

    @property
    def remarks(self) -> tuple[Result, ...]:
        """What is worth knowing, and no fault."""
        return self.having("remark")

    def having(self, status: Status) -> tuple[Result, ...]:
        """The results of one status."""
        return tuple(result for result in self.results if result.status == status)

    def result(self, key: str, subject: str = ENV) -> Result | None:
        """What was found about a requirement; None where it was not looked at."""
        return next((one for one in self.results if (one.key, one.subject) == (key, subject)), None)

    @property
    def counts(self) -> tuple[int, int]:
        """How many checks passed, remarks included, of how many."""
        ran = sum(result.status in RAN for result in self.results)
        return ran - len(self.failures), ran

    @property
    def conclusion(self) -> str:
        """One line that says how it stands."""
        good, ran = self.counts
        said: tuple[Status, ...] = ("remark", "refused", "not installed")
        more = [
            f"{len(found)} {word}{'s' if word == 'remark' and len(found) > 1 else ''}"
            for word in said
            if (found := self.having(word))
        ]
        return f"{good} of {ran} checks passed" + (f" ({', '.join(more)})" if more else "")

    def rows(self) -> Iterator[tuple[str, list[Result | None]]]:
        """Each requirement's key, with what was found in each column."""
        by_place = {(result.key, result.subject): result for result in self.results}
        found = {result.key for result in self.results}
        for key in (key for key in self.keys if key in found):
            yield key, [by_place.get((key, column)) for column in self.columns]

    def table(self) -> str:
        """The table of text: requirements in rows, the environment and the frameworks in columns."""
        rows = [(key, [MARKS[one.status] if one else "" for one in found]) for key, found in self.rows()]
        first = max([len(key) for key, _ in rows], default=0)
        widths = [
            max([len(column), *(len(cells[index]) for _, cells in rows)]) for index, column in enumerate(self.columns)
        ]

        def line(head: str, cells: list[str]) -> str:
            return "  ".join([head.ljust(first), *(c.ljust(w) for c, w in zip(cells, widths, strict=True))]).rstrip()

        return "\n".join([line("", list(self.columns)), *(line(key, cells) for key, cells in rows)])

    def raise_if_failed(self) -> None:
        """Raises an AssertionError that lists each failure, if there is one."""
        if self.failures:
            listed = "\n".join(f"  {failure}\n      ({failure.sentence})" for failure in self.failures)
            raise AssertionError(f"{self.env}: {self.conclusion}\n{listed}")

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON has it."""
        good, ran = self.counts
        head = {name: getattr(self, name) for name in ("env", "api", "passed", "seed", "episodes", "steps")}
        return {
            "format": 1,
            **head,
            "seconds": round(self.seconds, 2),
            "checks_passed": good,
            "checks": ran,
            "columns": list(self.columns),
            "results": [asdict(result) for result in self.results],
        }

    def to_json(self) -> str:
        """The report as JSON."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"

    def to_html(self) -> str:
        """The report as one page that needs nothing else."""
        from .html_report import page

        return page(self)

    def write_json(self, path: str | Path) -> None:
        """Writes the report as JSON; the file is replaced as a whole."""
        write_atomically(Path(path), self.to_json())

    def write_html(self, path: str | Path) -> None:
        """Writes the report as a page; the file is replaced as a whole."""
        write_atomically(Path(path), self.to_html())

    def __str__(self) -> str:
        listed = [f"{status}: {result}" for status in ORDER for result in self.having(status)]
        return "\n".join([self.env, self.table(), *listed, self.conclusion])
