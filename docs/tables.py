"""Writes the tables of the documentation that follow from the code or the benchmarks, and the pictures of these.

Each table is on its page between two comments, `<!-- generated: NAME -->` and `<!-- end -->`. `make docs` calls this,
and so does `make bench-publish` after it has replaced the figures of the benchmarks.

python docs/tables.py
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

import envoi
from envoi.adapters import TARGETS
from envoi.integrations.check.report import REQUIREMENTS_OF

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

import gallery  # noqa: E402 (found there)
import pair_losses  # noqa: E402
import performance  # noqa: E402

ADAPTERS = DOCS.parent / "adapters"
MARKED = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
LOST = re.compile(r"What is lost:\n\n((?:\|.*\|\n)+)")
IMPORT_REFUSES = re.compile(r"^An import refuses [^\n]*(?:\n[^\n]+)*", re.MULTILINE)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Returns a table of Markdown.

    Args:
        head: The cells of the first row.
        rows: The cells of the others.
    """
    head = tuple(head)
    lines = [head, ("---",) * len(head), *rows]
    return "".join(
        "|" + "|".join(f" {cell} " if set(cell) != {"-"} else cell for cell in line) + "|\n" for line in lines
    )


def lost() -> str:
    """The losses of each framework, and what its imports refuse, from the docstrings of the adapters."""
    sections = []
    for name in TARGETS:
        text = ast.get_docstring(ast.parse((ADAPTERS / name / "__init__.py").read_text())) or ""
        found, refused = LOST.search(text), IMPORT_REFUSES.search(text)
        sections.append(f"### {name}\n\n" + (found[1] if found else "Nothing.\n"))
        if refused:
            sections.append(" ".join(refused[0].split()) + "\n")
    return "\n".join(sections)


def checked() -> str:
    """The requirements of the check by theme, each with its key and its sentence."""
    return "\n".join(
        f"### {theme}\n\n" + table(("key", "requirement"), ((f"`{one.key}`", one.sentence) for one in found))
        for theme, found in REQUIREMENTS_OF.items()
    )


def errors() -> str:
    """The errors, each with its meaning and the built-in error that catches it too."""
    kinds = sorted(
        (kind for kind in vars(envoi).values() if isinstance(kind, type) and issubclass(kind, envoi.EnvoiError)),
        key=lambda kind: (kind is not envoi.EnvoiError, kind.__name__),
    )
    return table(
        ("error", "is also a", "meaning"),
        (
            (f"`{kind.__name__}`", f"`{kind.__bases__[-1].__name__}`", (kind.__doc__ or "").split("\n")[0])
            for kind in kinds
        ),
    )


QUICK, TENS, MINUTE, MINUTES = "seconds", "10 to 20 s", "20 to 60 s", "1 to 2 min"
EXAMPLES = {
    "Environments of your own": {
        "corridor": QUICK,
        "several_agents": QUICK,
        "representations": QUICK,
        "contexts": QUICK,
        "rewarders": QUICK,
    },
    "Any environment in any framework": {
        "frameworks": QUICK,
        "bring_yours": TENS,
        "sb3_ppo": TENS,
        "acme_loop": QUICK,
        "vector_loop": TENS,
        "tf_agents_dqn": TENS,
    },
    "Snapshots, plans and batches": {
        "snapshots": QUICK,
        "tictactoe": QUICK,
        "planning": QUICK,
        "compiled_batch": QUICK,
    },
    "Training with RLlib": {
        "train": MINUTE,
        "own_tuner": MINUTE,
        "generalisation": MINUTE,
        "self_play": MINUTES,
        "rllib_pursuit": MINUTES,
    },
}
"""The examples by theme, each with the time that it takes on two cores."""


def examples() -> str:
    """The examples by theme, each with the first line of its docstring and its time."""
    folder = DOCS.parent / "examples"
    if {path.stem for path in folder.glob("*.py")} != {name for names in EXAMPLES.values() for name in names}:
        raise LookupError("docs/tables.py: EXAMPLES has other names than the folder examples/")
    sections = []
    for theme, names in EXAMPLES.items():
        docs = {name: ast.get_docstring(ast.parse((folder / f"{name}.py").read_text())) or "" for name in names}
        rows = ((f"`{name}.py`", docs[name].split("\n")[0], time) for name, time in names.items())
        sections.append(f"## {theme}\n\n" + table(("example", "shows", "takes"), rows))
    return "\n".join(sections)


def project() -> str:
    """The version, the address of the repository, and how to install from there."""
    found = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]
    address = found.get("urls", {}).get("Repository")
    line = f"pip install 'envoi[gymnasium] @ git+{address}'" if address else "pip install '.[gymnasium]'  # in a clone"
    facts = [f"Version {found['version']}", f"[repository]({address})" if address else "", found["license"]]
    shown = " · ".join([*filter(None, facts), "[extras and supported versions](installation.md)"])
    return f"```\n{line}\n```\n\n{shown}\n"


SHORT = {"gymnasium_vector": "vector", "tf_agents": "TF-Agents", "pettingzoo": "PettingZoo", "pettingzoo_aec": "AEC"}
SHORT |= {"rllib": "RLlib", "sb3": "SB3"}
"""The names of frameworks in the heads of wide tables."""


def properties() -> str:
    """The outcome of each framework for a property of an environment, computed from `envoi.adapters.losses`."""
    heads = ("", "an environment with", *(SHORT.get(name, name) for name in TARGETS))
    return table(heads, pair_losses.rows_of_properties())


def pairs() -> str:
    """The losses from each framework to each other one, as letters of properties."""
    rows = ([SHORT.get(name, name), *cells] for name, *cells in pair_losses.rows_of_pairs())
    return table(("from \\ to", *(SHORT.get(name, name) for name in TARGETS)), rows)


TABLES: dict[str, Callable[[], str]] = {
    "lost": lost,
    "checked": checked,
    "errors": errors,
    "examples": examples,
    "gallery": gallery.page,
    "project": project,
    "properties": properties,
    "pairs": pairs,
    **performance.TABLES,
}
OF_FRAMEWORKS = {"properties", "pairs"}
"""Tables that ask the frameworks. Where one is not installed, as where the site is built, they stay as they are."""


def current(text: str) -> str:
    """Returns the text of a page with its tables as the code has them now."""
    return MARKED.sub(_current_table, text)


def _current_table(found: re.Match[str]) -> str:
    if found[2] in OF_FRAMEWORKS and not pair_losses.installed():
        return found[0]
    return f"{found[1]}\n{TABLES[found[2]]()}\n{found[3]}"


if __name__ == "__main__":
    for path in [*sorted(DOCS.rglob("*.md")), DOCS.parent / "README.md"]:
        before = path.read_text()
        if (after := current(before)) != before:
            path.write_text(after)
            print(f"wrote the tables of {path.relative_to(DOCS.parent)}")
    for name, draw in performance.PICTURES.items():
        (DOCS / "figures" / name).write_text(draw())
