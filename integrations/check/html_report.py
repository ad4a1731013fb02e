"""Renders a report as one HTML page that links to no other file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from .requirement import LEGEND, MARKS, Result, Status
from .requirements import THEMES, Theme

if TYPE_CHECKING:
    from .report import Report

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .3rem; } .quiet { opacity: .65; }
code { font: .9em ui-monospace, monospace; } code.again { user-select: all; } .wide { overflow-x: auto; }
table { border-collapse: collapse; } th, td { padding: .25rem .4rem; border-bottom: 1px solid #8884; }
tbody th { text-align: left; font-weight: normal; } td { text-align: center; }
body:has(#only:checked) .fine { display: none; }
.passed { color: #2a9347; } .failed { color: #fff; background: #c0262d; } .remark, .narrowed { color: #a66b00; }
""".strip()

_FILTER = '<p><label><input type="checkbox" id="only"> show failures only</label></p>'
_CODE = re.compile(r"`([^`]*)`")
_SECTIONS: tuple[tuple[Status, str], ...] = (
    ("failed", "Failures"),
    ("remark", "Remarks"),
    ("refused", "Refused: a framework cannot express it"),
    ("narrowed", "Narrowed: a framework expresses it less precisely"),
    ("not installed", "Not installed"),
)


def html_page(report: Report) -> str:
    """Returns the HTML page of a report."""
    state = "passed" if report.passed else "failed"
    played = (
        f"played by its own API ({report.api}): {report.episodes} episodes of at most {report.steps:,} steps, "
        f"with the seeds after {report.seed}, in {report.seconds:.1f} s"
    )
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(report.env)}: {escape(report.conclusion)}</title>",
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{escape(report.env)}</h1>",
        f'<p class="state"><span class="{state}">&nbsp;{state}&nbsp;</span> {escape(report.conclusion)}</p>',
        f'<p class="quiet">{escape(played)}</p>',
    ]
    for status, title in _SECTIONS:
        found = report.having(status)
        if found:
            lines.append(f"<h2>{escape(title)}</h2><ul>{''.join(_item(report, one) for one in found)}</ul>")
    lines.append(f'<h2>All checks</h2>{"" if report.passed else _FILTER}<p class="quiet">{escape(LEGEND)}</p>')
    for theme in THEMES:
        lines += _theme(report, theme)
    for result in (result for result in report.results if result.notes):
        warned = "".join(f"<li>{escape(note)}</li>" for note in result.notes)
        lines.append(f"<h2>Warnings of <code>{escape(result.key)}</code></h2><ul>{warned}</ul>")
    return "\n".join([*lines, "</body></html>"]) + "\n"


def _item(report: Report, result: Result) -> str:
    where = "" if result.subject == "env" else f"{escape(result.subject)}, "
    again = ""
    if result.status == "failed":
        command = escape(report.command(result.subject))
        again = f'<br>repeat it, with the same seeds: <code class="again">{command}</code>'
    return (
        f"<li><b>{where}<code>{escape(result.key)}</code></b>: {_prose(result.reason)}"
        f'<br><span class="quiet">{_prose(result.sentence)}</span>{again}</li>'
    )


def _prose(text: str) -> str:
    """Returns a sentence as HTML, with its names in backticks as code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _theme(report: Report, theme: Theme) -> Iterator[str]:
    """Yields the part of one theme: its sentence, and a table of its requirements on all subjects that have results."""
    rows = [(key, found) for key, found in report.rows() if key in theme.keys]
    if not rows:
        return
    used = [index for index in range(len(report.columns)) if any(found[index] for _, found in rows)]
    fine = " fine" if all(_is_fine(found) for _, found in rows) else ""
    yield f'<section class="theme{fine}"><h2>{escape(theme.title)}</h2>'
    yield f'<p class="quiet">{escape(theme.sentence)}</p>'
    heads = "".join(f"<th>{escape(report.columns[index]).replace('_', '_<wbr>')}</th>" for index in used)
    yield f'<div class="wide"><table><thead><tr><th></th>{heads}</tr></thead><tbody>'
    for key, found in rows:
        given = next(result for result in found if result is not None)
        numbers = ", ".join(map(str, given.contract))
        contract = f" (fidelity requirement {numbers})" if numbers else ""
        cells = "".join(_cell(found[index]) for index in used)
        kind = ' class="fine"' if _is_fine(found) else ""
        yield (
            f"<tr{kind}><th><code>{escape(key)}</code><br>"
            f'<span class="quiet">{_prose(given.sentence)}{contract}</span></th>{cells}</tr>'
        )
    yield "</tbody></table></div></section>"


def _is_fine(found: list[Result | None]) -> bool:
    return not any(result is not None and result.status == "failed" for result in found)


def _cell(result: Result | None) -> str:
    if result is None:
        return "<td></td>"
    kind, title = result.status.partition(" ")[0], escape(result.reason or result.status, quote=True)
    return f'<td class="{kind}" title="{title}">{escape(MARKS[result.status])}</td>'
