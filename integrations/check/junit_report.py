"""Renders a report as JUnit XML, which services for continuous integration read."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from .themes import THEMES

if TYPE_CHECKING:
    from .report import Report

_SKIPPED = ("skipped", "refused", "not installed")


def junit_xml(report: Report) -> str:
    """Returns a report as JUnit XML: a suite for each theme, and a test for each requirement and subject.

    Remarks and narrowed values pass, with the reason as output; what was refused or skipped is skipped with its reason.
    """
    root = ElementTree.Element("testsuites", name=f"envoi check {report.env}", time=f"{report.seconds:.3f}")
    totals: dict[str, int] = dict.fromkeys(("tests", "failures", "skipped"), 0)
    for theme in THEMES:
        results = [result for result in report.results if result.key in theme.keys]
        if not results:
            continue
        counts = {
            "tests": len(results),
            "failures": sum(result.status == "failed" for result in results),
            "skipped": sum(result.status in _SKIPPED for result in results),
        }
        totals = {name: total + counts[name] for name, total in totals.items()}
        suite = ElementTree.SubElement(root, "testsuite", {"name": theme.title, "errors": "0", **_texts(counts)})
        for result in results:
            place = f"{report.env}.{result.subject}"
            case = ElementTree.SubElement(suite, "testcase", classname=place, name=result.key)
            if result.status == "failed":
                failure = ElementTree.SubElement(case, "failure", message=_plain(result.reason), type="failed")
                failure.text = _plain(f"{result.sentence}\n{result.reason}\nagain: {report.command(result.subject)}")
            elif result.status in _SKIPPED:
                ElementTree.SubElement(case, "skipped", message=_plain(f"{result.status}: {result.reason}"))
            elif result.status != "passed":
                ElementTree.SubElement(case, "system-out").text = _plain(f"{result.status}: {result.reason}")
    root.attrib.update(_texts(totals))
    ElementTree.indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _texts(counts: dict[str, int]) -> dict[str, str]:
    return {name: str(count) for name, count in counts.items()}


def _plain(text: str) -> str:
    """Returns a text without the control characters that XML does not allow."""
    return "".join(letter if letter in "\n\t" or letter >= " " else "\N{REPLACEMENT CHARACTER}" for letter in text)
