"""The code of every page runs and prints what the page shows, its commands exist, and the site has every page."""

import ast
import contextlib
import importlib
import io
import linecache
import re
import runpy
import shlex
import sys
import tomllib
import warnings
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
import yaml

import envoi
from envoi.adapters import FRAMEWORKS, TARGETS, convert, from_env, losses
from envoi.adapters.shared.loss import NarrowingWarning

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)

HELD_ELSEWHERE = {
    "adding_a_framework.md": "test_pages.py",
    "architecture.md": "test_pages.py",
    "several_agents.md": "integrations/test_several_agents.py",
    "writing_a_wrapper.md": "test_pages.py",
}
"""Pages whose code has a test of its own."""

TRAINS = {"checkpoints.md", "coming_from/rllib.md", "generalisation_rllib.md", "rllib.md", "training.md"}
"""Pages whose code trains with Ray."""

NOT_RUN = object()
"""The output of code that is not run."""

SHORTER = {f'{{"training_iteration": {stop}}}': '{"training_iteration": 1}' for stop in (15, 20)}
SHORTER |= {"model.learn(100_000": "model.learn(8_192"}
"""Stops of pages, and the earlier ones of their tests."""


def shortened(text):
    """Returns a page whose trainings stop early."""
    for stop, earlier in SHORTER.items():
        text = text.replace(stop, earlier)
    return text


def blocks(text):
    """The fenced blocks of a page, as pairs (language, text)."""
    return FENCE.findall(text)


def python_pages():
    for page in PAGES:
        if page not in HELD_ELSEWHERE and "```python" in (DOCS / page).read_text():
            yield pytest.param(page, marks=[pytest.mark.deep] if page in TRAINS else [])


@contextlib.contextmanager
def ray_for_pages():
    """A Ray whose jobs may have as many processes as those of the pages; that of other tests if they have begun one."""
    import ray

    if ray.is_initialized():
        yield
        return
    ray.init("local", num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


def shows(shown, printed):
    """Returns True if a page shows what was printed; `…` on the page is any text within a line."""
    pattern = re.escape(shown.strip()).replace("…", ".*")
    return re.fullmatch(pattern, "\n".join(line.rstrip() for line in printed.strip().splitlines())) is not None


def run(text, page, names):
    """Runs the code of a page; each block of `text` is what the block of Python before it prints."""
    printed = None
    for number, (language, code) in enumerate(blocks(text)):
        if language == "python":
            output, file = io.StringIO(), f"{page}:{number}"
            linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)  # as notebooks do
            with contextlib.redirect_stdout(output):
                exec(compile(code, file, "exec"), names)
            printed = output.getvalue()
        elif language == "py":  # code of a library that is not installed here; a test of its own runs it
            printed = NOT_RUN
        elif language == "text" and printed is not NOT_RUN:
            assert shows(code, printed), f"docs/{page} shows\n{code}\nand its code prints\n{printed}"


@pytest.mark.parametrize("page", [*python_pages()])
def test_the_code_of_a_page_runs_and_prints_what_it_shows(page, monkeypatch, tmp_path):
    module = ModuleType("the_page")  # can be imported, so that what it defines can be pickled
    monkeypatch.setitem(sys.modules, "the_page", module)
    monkeypatch.chdir(tmp_path)
    noisy = page in {*TRAINS, "coming_from/carl.md"}  # Ray and CARL warn of much
    with warnings.catch_warnings(record=noisy):
        warnings.simplefilter("always" if noisy else "ignore", Warning if noisy else NarrowingWarning)
        with ray_for_pages() if page in TRAINS else contextlib.nullcontext():
            run(shortened(text := (DOCS / page).read_text()), page, vars(module))
    for picture in re.findall(r'savefig\("([\w.]+)"', text):  # which `docs/page_pictures.py` keeps
        assert (tmp_path / picture).is_file()
        assert f"pictures/{picture})" in text


def test_code_fits_its_column_on_a_screen_of_1280_points():
    for page in PAGES:
        for language, code in blocks((DOCS / page).read_text()):
            longest = max(code.splitlines(), key=len, default="")
            wraps = language in ("text", "markdown")
            assert wraps or len(longest) <= 86, f"{page}: {longest}"


@pytest.mark.parametrize(("page", "test"), [*HELD_ELSEWHERE.items()])
def test_pages_that_are_held_elsewhere_are(page, test):
    assert f'"{page}"' in (ROOT / "tests" / test).read_text()


def commands():
    """The commands on the pages, without their trailing comments."""
    for page in [*PAGES, "../README.md", "../CONTRIBUTING.md"]:
        for language, text in blocks((DOCS / page).read_text()):
            if language in ("", "bash"):
                for line in re.sub(r"\\\n", " ", text).splitlines():
                    if line.startswith("envoi "):
                        yield pytest.param(line, id=f"{page}: {line}")


@pytest.mark.parametrize("line", [*commands()])
def test_a_command_on_a_page_has_the_options_that_it_uses(line):
    import typer.main

    from envoi.integrations.cli.commands import app

    name, *arguments = shlex.split(line, comments=True)[1:]
    arguments = ["FOLDER" if argument in ("RUN", "…", "[FOLDER]") else argument for argument in arguments]
    command = typer.main.get_command(app).commands[name]
    with command.make_context(name, [one for one in arguments if not one.startswith("[--")], resilient_parsing=False):
        pass


def test_the_workflow_is_valid_and_its_command_has_the_options_that_it_uses():
    import typer.main

    from envoi.integrations.cli.commands import app

    (workflow,) = (text for language, text in blocks((DOCS / "checking_in_ci.md").read_text()) if language == "yaml")
    steps = yaml.safe_load(workflow)["jobs"]["check"]["steps"]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    (command,) = (step["run"] for step in steps if step.get("run", "").startswith("envoi "))
    _, name, *arguments = shlex.split(command)
    with typer.main.get_command(app).commands[name].make_context(name, arguments) as context:
        written = {str(path) for path in context.params.values() if isinstance(path, Path)}
    assert written == {"report.html", "report.xml"}
    (install,) = (step["run"] for step in steps if step.get("run", "").startswith("pip "))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys()
    assert set(re.search(r"envoi\[(.*)\]", install)[1].split(",")) <= extras


def test_generated_tables_are_current(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    current = runpy.run_path(str(DOCS / "tables.py"))["current"]
    stale = [page for page in [*PAGES, "../README.md"] if current(text := (DOCS / page).read_text()) != text]
    assert not stale, f"{stale}: call `make docs`"


def test_what_is_lost_between_frameworks_is_lost_by_their_conversions(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import pair_losses

    found = pair_losses.outcomes()
    assert all(any(by.values()) for by in found.values())  # each property is lost somewhere
    for what, by in found.items():
        for one in (name for name in TARGETS if name != "rllib" and not FRAMEWORKS[name].only_lanes and not by[name]):
            arrived = from_env(convert(pair_losses.PROBES[what](), one))
            lost = {other for other in TARGETS if losses(arrived, other)}
            assert lost == {other for other in TARGETS if what in pair_losses.lost_between(found, one, other)}


CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def in_navigation(entry):
    if isinstance(entry, str):
        yield entry
    for part in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
        yield from in_navigation(part)


def test_each_page_is_in_the_navigation_once():
    assert sorted(in_navigation(CONFIG["nav"])) == sorted(PAGES)


def test_the_picture_has_all_frameworks():
    picture = (DOCS / "picture.html").read_text()
    assert re.findall(r'data-framework="(\w+)"', picture) == list(TARGETS)
    assert re.findall(r'data-environment="(\w+)"', picture) == ["core", *FRAMEWORKS]


def test_pictures_are_shown_and_small():
    pages = "".join((DOCS / page).read_text() for page in PAGES)
    pictures = [*(DOCS / "pictures").iterdir(), DOCS / "learning_curve.png"]
    assert [path.name for path in pictures if path.name not in pages] == []
    assert sum(path.stat().st_size for path in pictures) < 600_000


def test_environments_of_the_gallery_have_their_names():
    for scheme, name in re.findall(r"<figcaption><code>(\w+):(.*?)</code>", (DOCS / "gallery.md").read_text()):
        assert f"{scheme}:{name}" in envoi.adapters.names_of(scheme)


def test_no_page_invents_an_address():
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("urls", {})
    for text in [(ROOT / "README.md").read_text(), *((DOCS / page).read_text() for page in PAGES)]:
        assert {*re.findall(r"https://github\.com/[\w-]+/envoi\b", text)} <= {*urls.values()}


NOT_SHOWN = {
    *["CategoricalContextFeature", "NormalFloatContextFeature", "UniformFloatContextFeature"],
    *["UniformIntegerContextFeature", "StructuredBCCatalog", "StructuredCatalog", "StructuredDQNCatalog"],
    *["StructuredPPOCatalog", "StructuredSACCatalog", "StructuredTQCCatalog", "Algorithm", "Hyperparameter", "fill"],
}
"""CARL's and ConfigSpace's names for features, a row of `ALGORITHMS`, what `configure` chooses, and a helper."""


def test_every_public_name_is_in_the_reference():
    listed = re.findall(r"^::: envoi\.([\w.]+)$", "\n".join((DOCS / p).read_text() for p in PAGES), re.MULTILINE)
    assert len(listed) == len(set(listed))
    names = [name for name in listed if "." not in name]
    assert sorted(names) == envoi.__all__
    shown = {name.rpartition(".")[2] for name in listed}
    for package in ("context", "curricula", "models", "wrappers", "integrations.check", "integrations.rllib"):
        module = importlib.import_module(f"envoi.{package}")
        kinds = [one for name in module.__all__ if isinstance(one := getattr(module, name), type | FunctionType)]
        assert {kind.__name__ for kind in kinds} - shown <= NOT_SHOWN, package
    source = ast.parse((ROOT / "integrations" / "rllib" / "modules" / "__init__.py").read_text())
    (modules,) = (ast.literal_eval(node.value) for node in source.body if isinstance(node, ast.Assign))
    assert set(modules) - shown <= NOT_SHOWN
    conversions = {name.partition(".")[2] for name in listed if re.fullmatch(r"adapters\.\w+", name)}
    public = {*envoi.adapters.__all__, "from_envpool"} - {"FRAMEWORKS", "SCHEMES", "TARGETS"}
    assert conversions == public


@pytest.mark.parametrize("text", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"])
def test_texts_that_a_package_index_shows_have_no_relative_links_and_name_files_that_exist(text):
    page = FENCE.sub("", (ROOT / text).read_text())
    # Pictures get absolute addresses with the repository's own, when there is one.
    assert all(target.startswith("https://") for target in re.findall(r"(?<!!)\[[^]]*\]\(([^)]+)\)", page))
    for name in re.findall(r"`((?:docs|examples|tests|core|adapters|integrations|benchmarks|\.github)/[\w/.]*)`", page):
        assert (ROOT / name).exists(), name


def test_versions_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["version"] == project["version"] == envoi.__version__
    assert citation["license"] == project["license"]


def test_every_extra_is_in_the_readme_or_for_developers():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = re.search(r"Extras: (.*?)\.\n", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    extras = project["optional-dependencies"].keys() - {"dev", "docs", "peers"}
    assert set(re.findall(r"`([\w-]+)`", listed)) == extras
    table = (DOCS / "installation.md").read_text().partition("| extra |")[2].partition("\n\n")[0]
    assert {
        name for cell in re.findall(r"^\| (.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(.+?)`", cell)
    } == extras


def test_links_and_pictures_of_pages_lead_somewhere():
    for page in [*PAGES, "../README.md"]:
        text, folder = FENCE.sub("", (DOCS / page).read_text()), (DOCS / page).parent
        for targets in re.findall(r'\]\(([^)#\s]+)(?:#[\w-]+)?\)|(?:src|href)="([^"#]+)"', text):
            target = "".join(targets)
            exists = (folder / target).is_file() or (folder / target).with_suffix(".md").is_file()
            assert exists or target.startswith("https://"), f"{page}: {target}"


SEARCHED = {
    "installation": "installation",
    "custom environment": "five_minutes",
    "vectorized environment": "batches",
    "multi-agent": "agents",
    "turn-based": "agents",
    "curriculum": "contexts",
    "domain randomization": "contexts",
    "hyperparameter": "command_line",
    "video": "command_line",
    "Minari": "coming_from/gymnasium",
    "TorchRL": "coming_from/gymnasium",
    "compared with": "performance",
    "faster": "performance",
}
"""Words that newcomers search for, and the page on which the site's search, which has all words, should find each."""


def test_pages_have_the_words_that_newcomers_search_for():
    text = {page: " ".join((DOCS / f"{page}.md").read_text().lower().split()) for page in SEARCHED.values()}
    assert [word for word, page in SEARCHED.items() if word.lower() not in text[page]] == []
