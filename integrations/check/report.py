"""The report of a check: text, JSON, JUnit XML, and one HTML page that links to no other file."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from itertools import zip_longest
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from envoi.adapters import SCHEMES
from envoi.atomic_write import write_atomically

from .requirement import RAN, Requirement, Result, Status
from .requirements.forms import FORM_REQUIREMENTS, SUITES
from .requirements.lifecycle import COPIES, EPISODES, INTERFACE, LANE_REQUIREMENTS
from .requirements.randomness import RANDOMNESS
from .requirements.values import AGENTS, VALUES

REQUIREMENTS_OF: Mapping[str, tuple[Requirement, ...]] = {
    "Values": VALUES,
    "Several agents": AGENTS,
    "Random numbers": RANDOMNESS,
    "Episodes": EPISODES,
    "Interface": INTERFACE,
    "Copies and snapshots": COPIES,
    "Lanes": LANE_REQUIREMENTS,
}
"""The requirements on every environment by the title of their theme."""

_ON_FORMS = {"Conversion": FORM_REQUIREMENTS, "Suites of the frameworks": sum(SUITES.values(), ())}
THEMES = {title: tuple(one.key for one in found) for title, found in {**REQUIREMENTS_OF, **_ON_FORMS}.items()}
"""The keys of all requirements, also of those on forms, by the title of their theme."""

ENV = "env"
"""The subject of results about the environment itself."""

MARKS: dict[Status, str] = {
    "passed": "✓",
    "failed": "✗",
    "remark": "!",
    "skipped": "·",
    "refused": "refused",
    "narrowed": "narrowed",
    "not installed": "not installed",
}
"""The mark of each status in a table; a cell is empty where a requirement does not concern a framework's form."""

LEGEND = "✓ passed   ✗ failed   ! remark   · does not apply, or cannot be decided"

LISTED: tuple[Status, ...] = ("failed", "remark", "refused", "narrowed", "not installed")
"""The statuses whose reasons are listed below the table."""


@dataclass(frozen=True)
class Report:
    """The results of a check.

    Attributes:
        env: Name of the environment.
        api: The API by which the environment itself was played.
        results: One result for each requirement and subject.
        columns: The subjects: `"env"`, then the frameworks.
        keys: Keys of the requirements, in order.
        seed: The check used the seeds after this one.
        episodes: Episodes of each rollout.
        steps: The largest number of steps of an episode.
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
        """The results that are worth knowing but are not faults."""
        return self.having("remark")

    def having(self, status: Status) -> tuple[Result, ...]:
        """Returns the results with one status."""
        return tuple(result for result in self.results if result.status == status)

    def result(self, key: str, subject: str = ENV) -> Result | None:
        """Returns the result of a requirement, or None if it was not checked.

        Args:
            key: Key of the requirement.
            subject: `"env"`, or the name of a framework.
        """
        return next((one for one in self.results if (one.key, one.subject) == (key, subject)), None)

    @property
    def counts(self) -> tuple[int, int]:
        """The number of checks that passed (including remarks), and the number of checks that ran."""
        ran = sum(result.status in RAN for result in self.results)
        return ran - len(self.failures), ran

    @property
    def conclusion(self) -> str:
        """The counts of all results, in one line."""
        good, ran = self.counts
        found = {"remark": len(self.remarks), "refused": len(self.having("refused"))}
        found["not installed"] = len(self.having("not installed"))
        more = [f"{n} {word}{'s' if word == 'remark' and n > 1 else ''}" for word, n in found.items() if n]
        return f"{good} of {ran} checks passed" + (f" ({', '.join(more)})" if more else "")

    def rows(self) -> Iterator[tuple[str, list[Result | None]]]:
        """Yields each requirement's key, with its result in each column."""
        by_place = {(result.key, result.subject): result for result in self.results}
        found = {result.key for result in self.results}
        for key in (key for key in self.keys if key in found):
            yield key, [by_place.get((key, column)) for column in self.columns]

    def command(self, subject: str = ENV) -> str:
        """Returns the command, or the call, that runs the checks of a subject again, with the same seeds.

        Args:
            subject: `"env"`, or the name of a framework.
        """
        play = {name: getattr(self, name) for name in ("seed", "episodes", "steps")}
        if self.env.partition(":")[0] in SCHEMES:
            options = "".join(f" --{name} {value}" for name, value in play.items())
            frameworks = "none" if subject == ENV else subject
            return f"envoi check {shlex.quote(self.env)} --frameworks {frameworks}{options}"
        options = "".join(f", {name}={value}" for name, value in play.items())
        return f"check_env({self.env}, frameworks={[] if subject == ENV else [subject]!r}{options})"

    def raise_if_failed(self) -> None:
        """Raises an error if a check failed.

        Raises:
            AssertionError: A check failed; the message lists each failure.
        """
        if self.failures:
            listed = "\n".join(f"  {failure}\n      ({failure.sentence})" for failure in self.failures)
            again = dict.fromkeys(self.command(failure.subject) for failure in self.failures)
            raise AssertionError(f"{self.env}: {self.conclusion}\n{listed}\nagain: {'; '.join(again)}")

    def table(self, width: int | None = None) -> str:
        """Returns the table as text: requirements in rows, the environment and the frameworks in columns.

        Args:
            width: The maximum width in columns. If the table is wider, each row names the subjects of its marks.
        """
        # Long names on two lines, so that all columns are less wide.
        heads = [name.replace("gymnasium_", "gymnasium ").replace("zoo_", "zoo ").split() for name in self.columns]
        rows = [("", line) for line in zip_longest(*heads, fillvalue="")]
        rows += [(key, tuple(MARKS[one.status] if one else "" for one in found)) for key, found in self.rows()]
        first = max(len(key) for key, _ in rows)
        widths = [max(map(len, column)) for column in zip(*(cells for _, cells in rows), strict=True)]
        lines = [" ".join([key.ljust(first), *map(str.ljust, cells, widths)]).rstrip() for key, cells in rows]
        if width is not None and max(map(len, lines)) > width:
            lines = [_in_words(key.ljust(first), found, width) for key, found in self.rows()]
        return "\n".join(lines)

    @property
    def heading(self) -> str:
        """A line that names the environment and the forms that were checked."""
        forms = " and in its forms" if len(self.columns) > 1 else ""
        return f"{self.env}, played by its own API ({self.api}){forms}"

    @property
    def findings(self) -> list[str]:
        """A line for each result with a reason, the commands that repeat the failures, and the conclusion."""
        listed = [f"{status}  {result}" for status in LISTED for result in self.having(status)]
        again = dict.fromkeys(f"again  {self.command(failure.subject)}" for failure in self.failures)
        return [*listed, *again, self.conclusion]

    def to_text(self, width: int = 100) -> str:
        """Returns the report as text: the table, a line for each result with a reason, and the conclusion.

        Args:
            width: The maximum width in columns.
        """
        return "\n".join([self.heading, self.table(width), LEGEND, *self.findings])

    def __str__(self) -> str:
        return self.to_text()

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

        Remarks and narrowed values count as passed, with the reason as output. Refused and skipped checks count as
        skipped, with their reason.
        """
        root = ElementTree.Element("testsuites", name=f"envoi check {self.env}", time=f"{self.seconds:.3f}")
        _count(root, self.results)
        for title, keys in THEMES.items():
            results = [result for result in self.results if result.key in keys]
            if results:
                suite = _count(ElementTree.SubElement(root, "testsuite", name=title, errors="0"), results)
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

    def to_html(self) -> str:
        """Returns the report as one self-contained HTML page."""
        return _page(self)

    def write_json(self, path: str | Path) -> None:
        """Writes the report as JSON; the file is replaced as a whole."""
        write_atomically(Path(path), self.to_json())

    def write_junit(self, path: str | Path) -> None:
        """Writes the report as JUnit XML; the file is replaced as a whole."""
        write_atomically(Path(path), self.to_junit())

    def write_html(self, path: str | Path) -> None:
        """Writes the report as an HTML page; the file is replaced as a whole."""
        write_atomically(Path(path), self.to_html())


def _in_words(head: str, found: Sequence[Result | None], width: int) -> str:
    """Returns a row of the table as text: its mark, or if marks differ, each mark with its subjects."""
    subjects: dict[Status, list[str]] = {}
    for result in filter(None, found):
        subjects.setdefault(result.status, []).append(result.subject)
    marks = [f"{MARKS[one]} {' '.join(names)}" if len(subjects) > 1 else MARKS[one] for one, names in subjects.items()]
    line, indent = f"{head} {', '.join(marks)}", " " * (len(head) + 1)
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _count(element: ElementTree.Element, results: Sequence[Result]) -> ElementTree.Element:
    """Writes the numbers of tests, failures and skipped tests to an XML element."""
    element.set("tests", str(len(results)))
    element.set("failures", str(sum(result.status == "failed" for result in results)))
    element.set("skipped", str(sum(result.status not in RAN for result in results)))
    return element


def _plain(text: str) -> str:
    """Returns a text without the control characters that XML does not allow."""
    return "".join(letter if letter in "\n\t" or letter >= " " else "\N{REPLACEMENT CHARACTER}" for letter in text)


_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
pre { white-space: pre-wrap; } table { border-collapse: collapse; } td { text-align: center; }
th, td { padding: .25rem .4rem; border-bottom: 1px solid #8884; } tbody th { text-align: left; font-weight: normal; }
.failed { color: #fff; background: #c0262d; }
""".strip()


def _page(report: Report) -> str:
    heads = "".join(f"<th>{escape(column)}</th>" for column in report.columns)
    rows: list[str] = []
    for title, keys in THEMES.items():
        of_theme = [(key, found) for key, found in report.rows() if key in keys]
        rows += [f"<tr><th><b>{escape(title)}</b></th></tr>"] if of_theme else []
        for key, found in of_theme:
            sentence = next(filter(None, found)).sentence
            cells = "".join(map(_cell, found))
            rows.append(f"<tr><th><code>{key}</code> {escape(sentence)}</th>{cells}</tr>")
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{escape(report.env)}</title>',
            f"<style>{_STYLE}</style></head><body>",
            f"<pre>{escape(chr(10).join([report.heading, *report.findings]))}</pre>",
            f"<table><thead><tr><th>{escape(LEGEND)}</th>{heads}</tr></thead><tbody>",
            *rows,
            "</tbody></table></body></html>\n",
        ]
    )


def _cell(result: Result | None) -> str:
    if result is None:
        return "<td></td>"
    reason = escape(result.reason or result.status, quote=True)
    return f'<td class="{result.status}" title="{reason}">{MARKS[result.status]}</td>'
