"""Compiles the text of a kernel, and keeps the result on disk for later processes.

A kernel's text is written to a file whose name is a digest of the text, of everything that it was made from, and of the
versions of Python, numpy, numba and this package. numba keeps the machine code beside that file; a changed model has
another digest, and so another file. Files appear whole, so that processes may compile side by side.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2s
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .availability import numba_version
from .errors import NotCompilable

SLOW = 1.0
"""Seconds of compilation from which on a line on stderr says so."""


@cache
def _package_digest() -> bytes:
    digest = blake2s()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


def kernel_digest(text: str, sources: str = "") -> str:
    """Returns the name of a kernel, equal for kernels that compile to the same code.

    Args:
        text: The text of the kernel.
        sources: Everything else that its code depends on, as text.
    """
    versions = (sys.version, np.__version__, numba_version(), platform.machine(), platform.system())
    return blake2s(repr((text, sources, versions)).encode() + _package_digest(), digest_size=12).hexdigest()


def cache_folder() -> Path:
    """Returns the folder of kernels: `$NUMBA_CACHE_DIR` or `$XDG_CACHE_HOME`, else `~/.cache`, then `envoi/kernels`.

    Where that cannot be written, it is a folder for temporary files.
    """
    root = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    places = [Path(root) if root else Path.home() / ".cache", Path(tempfile.gettempdir()) / f"envoi-{_user()}"]
    for place in places:
        folder = place / "envoi" / "kernels"
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if os.access(folder, os.W_OK):
                return folder
    return Path(tempfile.mkdtemp(prefix="envoi-kernels-"))


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")


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
    """Compiles the functions of a text, or loads their machine code from disk.

    Args:
        text: Lines that define functions.
        names: The globals of these lines.
        arguments: For each function, arguments of the dtypes and layouts of all later calls.
        title: The model's name, for messages.
        digest: The name of the kernel; see `kernel_digest`.
        options: The options of `numba.njit`.

    Returns:
        The compiled functions by name. They are called without a look at their arguments' types, which must be
        exactly those.

    Raises:
        NotCompilable: numba cannot compile one.
    """
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
    from numba.core.errors import NumbaError

    from .reasons import reason_of

    _write_once(file, text)
    linecache.cache[str(file)] = (len(text), None, text.splitlines(keepends=True), str(file))
    # A module, because numba imports that of a function whose code it loads.
    module = sys.modules.setdefault(f"envoi_kernel_{file.stem}", ModuleType(f"envoi_kernel_{file.stem}"))
    space = vars(module)
    space.update(names)
    exec(compile(text, str(file), "exec"), space)  # noqa: S102 (text of this package, with names of its own)
    made: dict[str, Callable[..., Any]] = {}
    try:
        for name, examples in arguments.items():
            signature = tuple(numba.typeof(value) for value in examples)
            function = numba.njit(signature, cache=True, **options)(space[name])
            space[name] = function  # for the functions after it; it also keeps the machine code
            (compiled,) = function.overloads.values()
            made[name] = compiled.entry_point
    except NumbaError as error:
        raise NotCompilable(reason_of(error)) from error
    return made


def _forget(file: Path) -> bool:
    """Removes the machine code of a kernel from disk, and that of the random functions; True if there was some.

    Args:
        file: The file of its text.
    """
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
