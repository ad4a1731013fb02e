"""The report of a check: a table of text, JSON, JUnit XML, and an HTML page."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from envoi.adapters import SCHEMES
from envoi.atomic_write import write_atomically

from .html_report import html_page
from .requirement import LISTED, MARKS, RAN, Result, Status
from .requirements import THEMES

ENV = "env"
"""The subject of results about the environment itself."""


@dataclass(frozen=True)
class Report:
    """The results of a check.

    Attributes:
        env: Name of the environment.
        api: The API by which the environment itself was played.
        results: One result for each requirement and subject.
        columns: The subjects: `"env"`, then the frameworks.
        keys: Keys of the requirements, in their order.
        seed: The check used the seeds after this one.
        episodes: Episodes of each rollout.
        steps: Most steps of an episode.
        seconds: Duration of the check.
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
        """True if no check failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[Result, ...]:
        """The results of requirements that the environment breaks."""
        return self.having("failed")

    @property
    def remarks(self) -> tuple[Result, ...]:
        """The results that are worth knowing but no fault."""
        return self.having("remark")

    def having(self, status: Status) -> tuple[Result, ...]:
        """Returns the results of one status."""
        return tuple(result for result in self.results if result.status == status)

    def result(self, key: str, subject: str = ENV) -> Result | None:
        """Returns the result of a requirement; None where it was not checked.

        Args:
            key: Key of the requirement.
            subject: `"env"`, or the name of a framework.
        """
        return next((one for one in self.results if (one.key, one.subject) == (key, subject)), None)

    @property
    def counts(self) -> tuple[int, int]:
        """The number of checks that passed, remarks included, and the number of checks that ran."""
        ran = sum(result.status in RAN for result in self.results)
        return ran - len(self.failures), ran

    @property
    def conclusion(self) -> str:
        """The counts of all results, in one line."""
        good, ran = self.counts
        named: tuple[Status, ...] = ("remark", "refused", "not installed")
        more = [
            f"{len(found)} {word}{'s' if word == 'remark' and len(found) > 1 else ''}"
            for word in named
            if (found := self.having(word))
        ]
        return f"{good} of {ran} checks passed" + (f" ({', '.join(more)})" if more else "")

    def rows(self) -> Iterator[tuple[str, list[Result | None]]]:
        """Yields each requirement's key, with its result in each column."""
        by_place = {(result.key, result.subject): result for result in self.results}
        found = {result.key for result in self.results}
        for key in (key for key in self.keys if key in found):
            yield key, [by_place.get((key, column)) for column in self.columns]

    def table(self) -> str:
        """Returns the table as text: requirements in rows, the environment and the frameworks in columns."""
        rows = [(key, [MARKS[one.status] if one else "" for one in found]) for key, found in self.rows()]
        first = max([len(key) for key, _ in rows], default=0)
        widths = [
            max([len(column), *(len(cells[index]) for _, cells in rows)]) for index, column in enumerate(self.columns)
        ]

        def line(head: str, cells: list[str]) -> str:
            return "  ".join([head.ljust(first), *(c.ljust(w) for c, w in zip(cells, widths, strict=True))]).rstrip()

        return "\n".join([line("", list(self.columns)), *(line(key, cells) for key, cells in rows)])

    def command(self, subject: str = ENV) -> str:
        """Returns the command, or the call, that runs the checks of a subject again, with the same seeds.

        Args:
            subject: `"env"`, or the name of a framework.
        """
        if self.env.partition(":")[0] in SCHEMES:
            frameworks = "none" if subject == ENV else subject
            return (
                f"envoi check {shlex.quote(self.env)} --frameworks {frameworks} --seed {self.seed} "
                f"--episodes {self.episodes} --steps {self.steps}"
            )
        frameworks = [] if subject == ENV else [subject]
        return (
            f"check_env({self.env}, frameworks={frameworks!r}, seed={self.seed}, episodes={self.episodes}, "
            f"steps={self.steps})"
        )

    def raise_if_failed(self) -> None:
        """Raises an error if a check failed.

        Raises:
            AssertionError: A check failed; the message lists each failure.
        """
        if self.failures:
            listed = "\n".join(f"  {failure}\n      ({failure.sentence})" for failure in self.failures)
            again = dict.fromkeys(self.command(failure.subject) for failure in self.failures)
            raise AssertionError(f"{self.env}: {self.conclusion}\n{listed}\nagain: {'; '.join(again)}")

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as plain values for JSON."""
        good, ran = self.counts
        head = {name: getattr(self, name) for name in ("env", "api", "passed", "seed", "episodes", "steps")}
        return {
            "format": 1,
            **head,
            "seconds": round(self.seconds, 2),
            "checks_passed": good,
            "checks": ran,
            "columns": list(self.columns),
            "results": [
                asdict(result) | ({"again": self.command(result.subject)} if result.status == "failed" else {})
                for result in self.results
            ],
        }

    def to_json(self) -> str:
        """Returns the report as JSON."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"

    def to_junit(self) -> str:
        """Returns the report as JUnit XML: a suite for each theme, and a test for each requirement and subject.

        Remarks and narrowed values pass, with the reason as output; what was refused or skipped is skipped, with its
        reason.
        """
        root = ElementTree.Element("testsuites", name=f"envoi check {self.env}", time=f"{self.seconds:.3f}")
        _count(root, self.results)
        for theme in THEMES:
            results = [result for result in self.results if result.key in theme.keys]
            if results:
                suite = _count(ElementTree.SubElement(root, "testsuite", name=theme.title, errors="0"), results)
                for result in results:
                    self._add_case(suite, result)
        ElementTree.indent(root, " ")
        return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"

    def _add_case(self, suite: ElementTree.Element, result: Result) -> None:
        case = ElementTree.SubElement(suite, "testcase", classname=f"{self.env}.{result.subject}", name=result.key)
        reason = _plain(f"{result.status}: {result.reason}")
        if result.status == "failed":
            failure = ElementTree.SubElement(case, "failure", message=_plain(result.reason), type="failed")
            failure.text = _plain(f"{result.sentence}\n{result.reason}\nagain: {self.command(result.subject)}")
        elif result.status not in RAN:
            ElementTree.SubElement(case, "skipped", message=reason)
        elif result.status != "passed":
            ElementTree.SubElement(case, "system-out").text = reason

    def write_junit(self, path: str | Path) -> None:
        """Writes the report as JUnit XML; the file is replaced as a whole."""
        write_atomically(Path(path), self.to_junit())

    def to_html(self) -> str:
        """Returns the report as one self-contained HTML page."""
        return html_page(self)

    def write_json(self, path: str | Path) -> None:
        """Writes the report as JSON; the file is replaced as a whole."""
        write_atomically(Path(path), self.to_json())

    def write_html(self, path: str | Path) -> None:
        """Writes the report as an HTML page; the file is replaced as a whole."""
        write_atomically(Path(path), self.to_html())

    def __str__(self) -> str:
        listed = [f"{status}: {result}" for status in LISTED for result in self.having(status)]
        return "\n".join([self.env, self.table(), *listed, self.conclusion])


def _count(element: ElementTree.Element, results: Sequence[Result]) -> ElementTree.Element:
    """Writes the numbers of tests, failures and skipped ones to an element."""
    element.set("tests", str(len(results)))
    element.set("failures", str(sum(result.status == "failed" for result in results)))
    element.set("skipped", str(sum(result.status not in RAN for result in results)))
    return element


def _plain(text: str) -> str:
    """Returns a text without the control characters that XML does not allow."""
    return "".join(letter if letter in "\n\t" or letter >= " " else "\N{REPLACEMENT CHARACTER}" for letter in text)
