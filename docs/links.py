"""Checks the built documentation: each page, picture and heading that a link names exists, and the search finds words.

python docs/links.py build/site
"""

from __future__ import annotations

import json
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the ids that links can name.

    Attributes:
        links: The values of `href` and `src`.
        ids: The values of `id` and `name`.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name in ("id", "name") and value:
                self.ids.add(value)


def dead(site: Path) -> list[str]:
    """Returns the links within a site that lead nowhere."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        if path.name == "404.html":  # its links are those of the root
            continue
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            is_there = target.is_file() and (
                not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].ids
            )
            if not is_there:
                found.append(f"{path.relative_to(site)}: {link}")
    return found


SEARCHED = {
    "installation": "installation.html",
    "custom environment": "five_minutes.html",
    "vectorized environment": "batches.html",
    "multi-agent": "agents.html",
    "turn-based": "agents.html",
    "curriculum": "contexts.html",
    "domain randomization": "contexts.html",
    "hyperparameter": "command_line.html",
    "video": "command_line.html",
    "Minari": "coming_from/gymnasium.html",
    "TorchRL": "coming_from/gymnasium.html",
    "compared with": "performance.html",
    "faster": "performance.html",
}
"""Words that newcomers search for, and the page on which the search has to find each of them."""


def missing(site: Path) -> list[str]:
    """Returns the words of `SEARCHED` that the index of the site's search does not have on their page."""
    found: dict[str, str] = {}
    for entry in json.loads((site / "search.json").read_text())["items"]:
        page = entry["location"].partition("#")[0]
        found[page] = f"{found.get(page, '')} {entry['title']} {entry['text']}".lower()
    return [f"{word!r} on {page}" for word, page in SEARCHED.items() if word.lower() not in found.get(page, "")]


if __name__ == "__main__":
    built = Path(sys.argv[1]).resolve()
    broken = [f"a link that leads nowhere: {one}" for one in dead(built)]
    sys.exit("\n".join([*broken, *(f"the search does not find {one}" for one in missing(built))]) or 0)
