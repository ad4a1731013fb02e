"""Renders a report as a badge for a README: an SVG picture, or the JSON that shields.io makes a badge of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

import envoi

if TYPE_CHECKING:
    from .report import Report

LABEL = "envoi check"
GREEN, RED = "#2e7d32", "#c62828"
FORMATS = (".svg", ".json")

_NARROW, _WIDE = frozenset("fijlrtI,.:;|!' "), frozenset("mwMW")
_SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label={title}>
<title>{text}</title>
<clipPath id="r"><rect width="{width}" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)">
<rect width="{left}" height="20" fill="#444"/><rect x="{left}" width="{right}" height="20" fill="{color}"/>
</g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{label_at}" y="14" textLength="{label_length}">{label}</text>
<text x="{message_at}" y="14" textLength="{message_length}">{message}</text>
</g>
</svg>
"""


def badge_format(path: Path) -> str:
    """Returns the format of a badge's file, by its suffix.

    Raises:
        envoi.EnvoiError: The suffix is neither `.svg` nor `.json`.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise envoi.EnvoiError(
            f"badge {path}: expected a file that ends in .svg or .json, got {path.suffix or 'no suffix'}"
        )
    return suffix


def badge_message(report: Report) -> str:
    """Returns the words of a report's badge, such as `52 passed` or `2 of 52 failed`."""
    good, ran = report.counts
    return f"{good} passed" if report.passed else f"{ran - good} of {ran} failed"


def badge_json(report: Report) -> str:
    """Returns the badge of a report in the format of shields.io's endpoint (https://shields.io/badges/endpoint-badge)."""
    document = {
        "schemaVersion": 1,
        "label": LABEL,
        "message": badge_message(report),
        "color": GREEN if report.passed else RED,
        "isError": not report.passed,
    }
    return json.dumps(document, indent=1) + "\n"


def badge_svg(report: Report) -> str:
    """Returns the badge of a report as an SVG picture that needs no other file and no font of its own."""
    message = badge_message(report)
    text = f"{LABEL}: {message}"
    label_length, message_length = _length(LABEL), _length(message)
    left, right = label_length + 10, message_length + 10
    return _SVG.format(
        title=quoteattr(text),
        text=escape(text),
        label=escape(LABEL),
        message=escape(message),
        width=left + right,
        left=left,
        right=right,
        label_length=label_length,
        message_length=message_length,
        label_at=left / 2,
        message_at=left + right / 2,
        color=GREEN if report.passed else RED,
    )


def _length(text: str) -> int:
    """Returns the width of a text of 11 pixels in Verdana; `textLength` fits other fonts to it."""
    return round(sum(4.3 if one in _NARROW else 9.6 if one in _WIDE else 6.9 for one in text))
