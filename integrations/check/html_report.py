"""Renders a report as one HTML page that links to no other file."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from .outcome import LEGEND, MARKS, Status
from .requirement import Result
from .themes import THEMES, Theme

if TYPE_CHECKING:
    from .report import Report

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #1c1c1c; background: #fff; max-width: 72rem; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p.state { font-size: 1.1rem; margin: .3rem 0 0; } .quiet { color: #666; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { padding: .2rem .55rem; text-align: center; border-bottom: 1px solid #e4e4e4; }
thead th { position: sticky; top: 0; background: #fff; border-bottom: 2px solid #999; }
tbody th { text-align: left; font-weight: normal; min-width: 18rem; }
body:has(#only:checked) .fine { display: none; }
.passed { color: #1a7f37; } .failed { color: #fff; background: #c0262d; font-weight: bold; }
.remark, .narrowed { color: #7a4b00; background: #fff1cc; } .refused, .missing { color: #555; background: #eee; }
.skipped { color: #999; }
li { margin: .35rem 0; overflow-wrap: anywhere; } code { font-family: ui-monospace, monospace; }
dt { font-family: ui-monospace, monospace; margin-top: .5rem; } dd { margin-left: 1.5rem; }
@media (prefers-color-scheme: dark) {
  body, thead th { background: #161616; color: #ddd; } th, td { border-color: #333; } .quiet { color: #999; }
  .passed { color: #56d364; } .remark, .narrowed { color: #f0c66b; background: #3a2f12; }
  .refused, .missing { color: #bbb; background: #2b2b2b; }
}
""".strip()

_FILTER = (
    f'<p><label><input type="checkbox" id="only"> show failures only</label></p><p class="quiet">{escape(LEGEND)}</p>'
)
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
    lines.append(_FILTER)
    for theme in THEMES:
        lines += _theme(report, theme)
    noted = [result for result in report.results if result.notes]
    if noted:
        lines.append("<h2>Warnings of the suites</h2><dl>")
        for result in noted:
            warned = "".join(f"<dd>{escape(note)}</dd>" for note in result.notes)
            lines.append(f"<dt>{escape(result.key)}</dt>{warned}")
        lines.append("</dl>")
    return "\n".join([*lines, "</body></html>"]) + "\n"


def _item(report: Report, result: Result) -> str:
    where = "" if result.subject == "env" else f"{escape(result.subject)}, "
    again = f"<br><code>{escape(report.command(result.subject))}</code>" if result.status == "failed" else ""
    return (
        f"<li><b>{where}<code>{escape(result.key)}</code></b>: {escape(result.reason)} "
        f'<span class="quiet">{escape(result.sentence)}</span>{again}</li>'
    )


def _theme(report: Report, theme: Theme) -> Iterator[str]:
    """Yields the part of one theme: its sentence, and a table of its requirements on all subjects that have results."""
    rows = [(key, found) for key, found in report.rows() if key in theme.keys]
    if not rows:
        return
    used = [index for index in range(len(report.columns)) if any(found[index] for _, found in rows)]
    fine = " fine" if all(_is_fine(found) for _, found in rows) else ""
    yield f'<section class="theme{fine}"><h2>{escape(theme.title)}</h2>'
    yield f'<p class="quiet">{escape(theme.sentence)}</p><div class="wide">'
    heads = "".join(f"<th>{escape(report.columns[index])}</th>" for index in used)
    yield f"<table><thead><tr><th></th>{heads}</tr></thead><tbody>"
    for key, found in rows:
        given = next(result for result in found if result is not None)
        numbers = ", ".join(map(str, given.contract))
        contract = f" (contract {numbers})" if numbers else ""
        cells = "".join(_cell(found[index]) for index in used)
        kind = ' class="fine"' if _is_fine(found) else ""
        yield (
            f"<tr{kind}><th><code>{escape(key)}</code><br>"
            f'<span class="quiet">{escape(given.sentence)}{contract}</span></th>{cells}</tr>'
        )
    yield "</tbody></table></div></section>"


def _is_fine(found: list[Result | None]) -> bool:
    return not any(result is not None and result.status == "failed" for result in found)


def _cell(result: Result | None) -> str:
    if result is None:
        return "<td></td>"
    kind = "missing" if result.status == "not installed" else result.status
    title = escape(result.reason or result.status, quote=True)
    return f'<td class="{kind}" title="{title}">{escape(MARKS[result.status])}</td>'
