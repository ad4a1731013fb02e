"""Compiles the text of a kernel, and keeps the result on disk for later processes.

A kernel's text is written to a file whose name is a digest of the text, of everything that it was made from, and of the
versions of Python, numpy, numba and this package. numba keeps the machine code beside that file; a changed model has
another digest, and so another file. Files appear whole, so that processes may compile side by side.
"""

from __future__ import annotations

import atexit
import contextlib
import linecache
import os
import platform
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ..errors import NotCompilable

LOADING = 0.5
"""Seconds that importing numba and loading a kernel from disk take."""

EXPECTED = 3.0
"""Seconds that compiling takes on an ordinary machine, numba's import included."""


@cache
def numba_version() -> str | None:
    """Returns numba's version without importing it; None if it is not installed."""
    if find_spec("numba") is None:
        return None
    from importlib.metadata import version  # imported here, so that `import envoi` stays fast

    return version("numba")


MARK = "envoi: "
"""The beginning of a reason of our own in an error of numba, which puts it between lines of its own."""

_SKIPPED = ("Failed in", "- Resolution failure", "There are", "Overload", "During", "The above", "Type of")


def reason_of(error: Exception) -> str:
    """Returns the reason of an error of numba as `function (file, line n): reason`."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines()]
    first = next((line for line in lines if line and not line.startswith(_SKIPPED)), type(error).__name__)
    call = next((line.removeprefix(">>> ") for line in lines if line.startswith(">>> ")), "")
    reason = f"{first.rstrip(':')} {call}".strip() if first.startswith("No implementation") else first
    marked = next((line.partition(MARK)[2] for line in lines if MARK in line), None)
    reason = reason if marked is None else marked
    if marked is not None and re.match(r"\S+ \(.+, line \d+\): ", marked):
        return marked
    places = re.findall(r'File "([^"]+)", line (\d+):\n(?:\s*def (\w+)\()?', text)
    for file, line, function in places:
        # Else it is no line of the author's. numba shows files below the working directory by relative paths.
        ours = Path(file).resolve().parent == Path(__file__).resolve().parent
        if not ours and "envoi/kernels" not in file and "/numba/" not in file:
            name = f"{function} " if function else ""
            return f"{name}({Path(file).name}, line {line}): {reason}"
    return reason


SLOW = 1.0
"""Seconds of compilation from which on a line on stderr says so."""


@cache
def _package_digest() -> bytes:
    from hashlib import blake2s  # `import envoi` stays fast

    digest = blake2s()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


def kernel_digest(text: str, sources: str = "") -> str:
    """Returns the name of a kernel, equal for kernels that compile to the same code."""
    versions = (sys.version, np.__version__, numba_version(), platform.machine(), platform.system())
    from hashlib import blake2s

    return blake2s(repr((text, sources, versions)).encode() + _package_digest(), digest_size=12).hexdigest()


def cache_folder() -> Path:
    """Returns the folder of kernels: `$NUMBA_CACHE_DIR` or `$XDG_CACHE_HOME`, else `~/.cache`, then `envoi/kernels`.

    Where that cannot be written, or others could write it too, it is one of this process: loading a kernel runs it.
    """
    root = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: there is no home
        folder = (Path(root) if root else Path.home() / ".cache").resolve() / "envoi" / "kernels"
        for made in (folder.parent, folder):
            made.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(folder, os.W_OK) and _is_private(folder):
            return folder
    return _folder_of_process(os.getpid())


def _is_private(folder: Path) -> bool:
    """Returns True if only this user can change what is in a folder, or replace it or one above it."""
    if not hasattr(os, "getuid"):
        return True
    for place in (folder, *folder.parents):
        found = place.lstat()
        owners = {os.getuid()} if place == folder else {os.getuid(), 0}
        others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        is_sticky = place != folder and found.st_mode & stat.S_ISVTX  # others cannot replace what is not theirs
        if stat.S_ISLNK(found.st_mode) or found.st_uid not in owners or (others_write and not is_sticky):
            return False
    return True


@cache
def _folder_of_process(process: int) -> Path:
    import tempfile

    folder = tempfile.mkdtemp(prefix="envoi-kernels-")
    atexit.register(_remove, folder, process)
    return Path(folder)


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # and not one that was forked from it
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


def is_on_disk(digest: str) -> bool:
    """Returns True if the machine code of a kernel is on disk."""
    return (cache_folder() / f"{digest}.done").exists()


PATIENCE = 120.0
"""Seconds after which a process that compiles counts as dead."""


def is_compiling(digest: str) -> bool:
    """Returns True if another process seems to compile a kernel."""
    return _is_fresh(cache_folder() / f"{digest}.lock")


def _is_fresh(lock: Path) -> bool:
    try:
        return time.time() - lock.stat().st_mtime < PATIENCE
    except OSError:
        return False


@contextlib.contextmanager
def _turn(lock: Path, done: Path) -> Iterator[None]:
    """Waits while another process compiles the same kernel."""
    while not done.exists():
        with contextlib.suppress(OSError):
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
            break
        if not _is_fresh(lock):
            with contextlib.suppress(OSError):
                lock.touch()
            break
        time.sleep(0.05)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()


def compiled_functions(
    text: str,
    names: Mapping[str, Any],
    arguments: Mapping[str, Sequence[Any]],
    title: str,
    digest: str,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Callable[..., Any]]:
    """Compiles the functions of a text, or loads their machine code from disk."""
    file = cache_folder() / f"{digest}.py"
    done = file.with_suffix(".done")
    with contextlib.ExitStack() as stack:
        if not done.exists():
            stack.enter_context(_turn(file.with_suffix(".lock"), done))
        started, known = time.perf_counter(), done.exists()
        try:
            functions = _functions(file, text, names, arguments, options or {})
        except NotCompilable:
            raise
        except Exception:  # numba raises what it comes upon in a damaged file
            if not _forget(file):
                raise
            functions = _functions(file, text, names, arguments, options or {})
        if not known:
            with contextlib.suppress(OSError):
                done.touch()
            seconds = time.perf_counter() - started
            if seconds > SLOW:
                print(  # noqa: T201
                    f"envoi: compiled {title} in {seconds:.1f} s; later processes load it from disk", file=sys.stderr
                )
        return functions


def _functions(
    file: Path,
    text: str,
    names: Mapping[str, Any],
    arguments: Mapping[str, Sequence[Any]],
    options: Mapping[str, Any],
) -> dict[str, Callable[..., Any]]:
    import numba  # imported here, because only compiling needs it
    from numba.core import config
    from numba.core.errors import NumbaError, UnsupportedBytecodeError

    _write_once(file, text)
    linecache.cache[str(file)] = (len(text), None, text.splitlines(keepends=True), str(file))
    # A module, because numba imports that of a function whose code it loads.
    module = sys.modules.setdefault(f"envoi_kernel_{file.stem}", ModuleType(f"envoi_kernel_{file.stem}"))
    space = vars(module)
    space.update(names)
    exec(compile(text, str(file), "exec"), space)  # noqa: S102 (text of this package, with names of its own)
    made: dict[str, Callable[..., Any]] = {}
    root = getattr(config, "CACHE_DIR", "")  # where numba keeps machine code, if it is set
    keeps = not root or _is_private(Path(root).resolve())
    try:
        for name, examples in arguments.items():
            signature = tuple(numba.typeof(value) for value in examples)
            function = numba.njit(signature, cache=keeps, **options)(space[name])
            space[name] = function  # for the functions after it; it also keeps the machine code
            (compiled,) = function.overloads.values()
            made[name] = compiled.entry_point
    except (NumbaError, UnsupportedBytecodeError, NotImplementedError) as error:  # the last is of values without code
        raise NotCompilable(reason_of(error)) from error
    return made


def _forget(file: Path) -> bool:
    """Removes the machine code of a kernel from disk, and that of the random functions; True if there was some."""
    from numba.core import config  # imported here, because only compiling needs it

    found, root = False, getattr(config, "CACHE_DIR", "")  # `$NUMBA_CACHE_DIR`
    for source in (file, Path(__file__).with_name("random_functions.py")):
        folder = Path(root) if root else source.parent / "__pycache__"
        for path in folder.rglob(f"{source.stem}.*.nb[ci]"):
            found = True
            with contextlib.suppress(OSError):
                path.unlink()
    return found


def _write_once(file: Path, text: str) -> None:
    """Writes a file whole, unless it is there: numba takes a newer file for a changed one."""
    if file.exists():
        return
    import tempfile

    with tempfile.NamedTemporaryFile("w", dir=file.parent, suffix=".part", delete=False, encoding="utf-8") as part:
        part.write(text)
    try:
        os.link(part.name, file)
    except FileExistsError:
        pass
    except OSError:  # no links on this file system
        Path(part.name).replace(file)
        return
    Path(part.name).unlink()


def author_function(value: Any) -> FunctionType | None:
    """Returns the function that a value is, or that its author has compiled by numba; None for what is of a library."""
    function = getattr(value, "py_func", value)
    return function if isinstance(function, FunctionType) and not is_of_library(function) else None


def is_of_library(value: Any) -> bool:
    """Returns True for what belongs to Python, numpy or numba, whose versions are in the digest."""
    named = value if isinstance(value, type) or callable(value) else type(value)
    module = value.__name__ if isinstance(value, ModuleType) else getattr(named, "__module__", None) or "builtins"
    return module.partition(".")[0] in ("numpy", "numba", "math", "builtins")


def is_constant(value: Any) -> bool:
    """Returns True for numbers, texts, arrays of numbers, and tuples of these."""
    if isinstance(value, tuple):
        parts: tuple[Any, ...] = value
        return all(is_constant(part) for part in parts)
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf"
    return value is None or isinstance(value, (bool, int, float, str, np.number, np.bool_))
