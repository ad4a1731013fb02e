"""Allowed imports between packages, the modules that an import loads, and the errors for missing frameworks."""

import ast
import importlib
import json
import pickle
import subprocess
import sys
import tomllib

import pytest
from depth import LONGEST
from prose import CODE, FOLDERS, ROOT, held, python_files, relative

from envoi.adapters import FRAMEWORKS as ROWS

FRAMEWORKS = (
    *(row.package for row in ROWS.values() if row.is_target),
    "gymnasium", "dm_env", "pettingzoo", "ray", "torch", "tensorflow", "tf_agents", "typer", "rich", "matplotlib",
    "pandas", "yaml", "click", "tensorboardX", "cloudpickle",
    "qgym",
)  # fmt: skip
MAY_IMPORT: dict[str, set[str]] = {name: {row.package, *row.schemes} for name, row in ROWS.items() if row.is_target}
for name, packages in {
    "context_catalogue": {"mujoco"},
    "envpool": {"envpool", "gymnasium"},
    "gymnasium": {"qgym"},
    "pettingzoo": {"gymnasium"},
    "pettingzoo_aec": {"gymnasium"},
    "rllib": {"gymnasium"},
    "sb3": {"gymnasium"},
    "tf_agents": {"tensorflow"},
}.items():
    MAY_IMPORT[name] = MAY_IMPORT.get(name, set()) | packages
"""The frameworks that a package or module of the adapters may import; the others import none."""


def test_the_wheel_has_every_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    there = {
        ".".join([name, *path.parent.relative_to(ROOT / folder).parts])
        for folder, name in FOLDERS.items()
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert set(project["tool"]["setuptools"]["packages"]) == there


def imports(path):
    """Each absolute import of a file, and the level of each relative one."""
    absolute, levels = [], []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            absolute += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            levels.append(node.level)
        elif isinstance(node, ast.ImportFrom):
            # `from envoi import adapters` imports `envoi.adapters`.
            absolute += [node.module, *(f"{node.module}.{one.name}" for one in node.names if node.module == "envoi")]
    return absolute, levels


def outside(path):
    """The imported modules that are neither the standard library's nor envoi's, by their first name."""
    return {module.partition(".")[0] for module in imports(path)[0]} - set(sys.stdlib_module_names) - {"envoi"}


def beyond_core(path):
    compilers = {"numba", "llvmlite"} if path.parent.name == "compiling" else set()  # when it compiles, not before
    absolute = {module for module in imports(path)[0] if module.partition(".")[0] == "envoi"}
    return outside(path) - {"numpy"} - compilers | absolute


def beyond_adapters(path):
    """The imports of a file of the adapters besides envoi, numpy and its own framework."""
    return (
        outside(path) - {"numpy"} - MAY_IMPORT.get(path.relative_to(ROOT / "adapters").with_suffix("").parts[0], set())
    )


def absolute_inside(path):
    """Absolute imports inside a folder, and relative ones across folders."""
    folder, *parts = path.relative_to(ROOT).parts
    package = FOLDERS[folder]
    absolute, levels = imports(path)
    inside = [one for one in absolute if f"{one}.".startswith(f"{package}.") and package != "envoi"]
    return [*inside, *(f"level {level}" for level in levels if level > len(parts))]


def folders_by_name(path):
    return {module for module in imports(path)[0] if module.partition(".")[0] in FOLDERS}


@pytest.mark.parametrize(
    ("folders", "beyond"),
    [(["core"], beyond_core), (["adapters"], beyond_adapters), (FOLDERS, absolute_inside), (CODE, folders_by_name)],
)
def test_files_import_what_they_may(folders, beyond):
    held({relative(path): [f" {found}"] for path in python_files(*folders) if (found := beyond(path))})


def modules_after(code):
    """The modules that a fresh interpreter holds after `code`."""
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"],
        capture_output=True, text=True, check=True, timeout=120, cwd="/",
    )  # fmt: skip
    return set(json.loads(run.stdout.splitlines()[-1]))


@pytest.mark.parametrize("package", ["envoi.models", "envoi.adapters", "envoi.integrations"])
def test_importing_loads_no_framework(package):
    loaded = {module.partition(".")[0] for module in modules_after(f"import {package}")}
    assert "envoi" in loaded
    assert not loaded & set(FRAMEWORKS)


def deferred_imports(path):
    """Returns the module of each name that a file imports under `if TYPE_CHECKING`."""
    branches = [
        node.body
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    ]
    return {
        alias.name: node.module
        for branch in branches
        for node in branch
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_importing_the_core_loads_little_beyond_numpy():
    more = modules_after("import envoi") - modules_after("import numpy, json")
    ours = {module for module in more if module.partition(".")[0] == "envoi"}
    foreign = {module for module in more - ours if not module.startswith(("__editable__", "numpy."))}
    assert len(foreign) <= 8, foreign
    assert not foreign & {"asyncio", "difflib", "heapq", "logging", "multiprocessing", "socket", "string", "unittest"}
    later = {module or name for name, module in deferred_imports(ROOT / "core" / "__init__.py").items()} - {"spec"}
    assert {"context", "models", "protocol.multi_env", "rewards.termination", "wrappers", "wrapping.lifted"} <= later
    assert not ours & {f"envoi.{module}" for module in (*later, "spec.structured")}
    assert len(ours) <= 43


def test_importing_the_adapters_adds_only_the_registry_to_the_core():
    more = modules_after("import envoi.adapters") - modules_after("import envoi, json")
    assert more <= {
        "envoi.adapters", "envoi.adapters.loading", "envoi.adapters.registry", "envoi.adapters.shared",
        "envoi.adapters.shared.loss", "envoi.protocol.multi_env",
    }  # fmt: skip


def test_a_name_imported_later_is_what_a_type_checker_sees():
    import envoi

    deferred = deferred_imports(ROOT / "core" / "__init__.py")
    modules = {name for name, module in deferred.items() if module is None}
    assert deferred.keys() - modules == envoi._MODULE_OF.keys()
    for name in modules:
        assert getattr(envoi, name) is importlib.import_module(f"envoi.{name}")
    for name, module in deferred.items():
        if module is not None:
            assert envoi._MODULE_OF[name] == module
            assert getattr(envoi, name) is getattr(importlib.import_module(f"envoi.{module}"), name)
    assert modules <= {*dir(envoi)}


def run_alone(code):
    """Runs `code` in a fresh interpreter."""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd="/")


def test_a_star_import_brings_every_public_name():
    run_alone("from envoi import *; import envoi; assert set(envoi.__all__) <= set(globals())")


def test_batch_is_the_function_whatever_is_imported_first():
    for first in ("envoi", "envoi.batching.loop", "envoi.models", "envoi.wrappers", "envoi.adapters"):
        run_alone(f"import {first}, envoi; assert envoi.batch(envoi.models.Catch(), 3).batch_size == 3")


def test_each_module_of_the_core_can_be_imported_first():
    names = [
        ".".join(("envoi", *path.relative_to(ROOT / "core").with_suffix("").parts)).removesuffix(".__init__")
        for path in python_files("core")
    ]
    run_alone(f"""
import importlib, numpy, sys
for name in {names!r}:
    for loaded in [module for module in sys.modules if module.partition(".")[0] == "envoi"]:
        del sys.modules[loaded]
    importlib.import_module(name)
""")


def test_a_pickle_finds_the_classes_that_are_imported_later():
    import envoi

    env = envoi.TimeLimit(envoi.models.Catch(), 5)
    held = [env, envoi.batch(env, 2), envoi.Text(3), envoi.as_multi(envoi.models.Catch()), envoi.Specs(1, 2, 3, 4)]
    names = [type(value).__name__ for value in held]
    run_alone(f"""
import pickle
held = pickle.loads({pickle.dumps(held)!r})
assert [type(value).__name__ for value in held] == {names!r}
held[0].reset(seed=0)
held[1].reset(seed=0)
""")


@pytest.mark.parametrize(
    ("framework", "extra", "name"), [("gymnasium", "gymnasium", "to_gymnasium"), ("ray", "rllib", "to_rllib")]
)
def test_a_missing_framework_says_what_to_install(framework, extra, name):
    # An interpreter in which the framework cannot be found.
    code = f"""
import importlib.machinery
find = importlib.machinery.PathFinder.find_spec
importlib.machinery.PathFinder.find_spec = classmethod(
    lambda cls, name, path=None, target=None: None if name == {framework!r} else find(name, path, target)
)
import envoi.adapters
try:
    envoi.adapters.{name}
except envoi.MissingBackend as error:
    assert isinstance(error, ImportError)
    assert "{framework} is not installed; pip install 'envoi[{extra}]'" in str(error), str(error)
else:
    raise AssertionError("it was found")
"""
    run_alone(code)


def test_the_longest_test_files_exist():
    assert [name for name in LONGEST if not (ROOT / "tests" / name).is_file()] == []
