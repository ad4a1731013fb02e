"""Compiles kernels, and keeps their machine code on disk for later processes.

A file of machine code has the name of a digest: of the kernel, of everything that it was made from, of the versions of
Python, numpy, numba and this package, and of the processor. A changed model has another digest, and so another file.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import platform
import re
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import blake2s
from importlib.metadata import version
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ..errors import NotCompilable

MARK = "envoi: "
"""Marks the start of envoi's reason in an error of numba, which adds lines before and after it."""

_SKIPPED = ("Failed in", "- Resolution failure", "There are", "Overload", "During", "The above", "Type of")


def reason_of(error: Exception) -> str:
    """Extracts the reason from an error of numba, as `function (file, line n): reason`."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines()]
    marked = next((line.partition(MARK)[2] for line in lines if MARK in line), "")
    if re.match(r"\S+ \(.+, line \d+\): ", marked):
        return marked
    first = next((line for line in lines if line and not line.startswith(_SKIPPED)), type(error).__name__)
    call = next((line.removeprefix(">>> ") for line in lines if line.startswith(">>> ")), "")
    reason = marked or (f"{first.rstrip(':')} {call}".strip() if first.startswith("No implementation") else first)
    if reason.startswith("Can't unify return type") and "int64" in reason and "float64" in reason:  # Python 3.12 on
        reason = "a number that it returns is int on one path and float on another; make it float, as in 0.0"
    places = re.findall(r'File "([^"]+)", line (\d+):\n(?:\s*def (\w+)\()?', text)
    for file, line, function in places:
        # Else it is no line of the author's. numba shows files below the working directory by relative paths.
        ours = Path(file).resolve().parent == Path(__file__).resolve().parent
        if not ours and "/numba/" not in file:
            name = f"{function} " if function else ""
            return f"{name}({Path(file).name}, line {line}): {reason}"
    return reason


SLOW = 1.0
"""Seconds of compilation from which a line on stderr reports it."""


@cache
def _package_digest() -> bytes:
    digest = blake2s()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


def kernel_digest(sources: str) -> str:
    """Returns the name of a kernel, equal for kernels that compile to the same code."""
    versions = (sys.version, np.__version__, version("numba"), platform.machine(), platform.system())
    return blake2s(repr((sources, versions)).encode() + _package_digest(), digest_size=12).hexdigest()


def cache_folder() -> Path | None:
    """Returns the folder of kernels; None if others could write there too, because loading a kernel runs it."""
    root = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: there is no home
        folder = (Path(root) if root else Path.home() / ".cache").resolve() / "envoi" / "kernels"
        for made in (folder.parent, folder):
            made.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(folder, os.W_OK) and _is_private(folder):
            return folder
    return None


def _is_private(folder: Path) -> bool:
    """Returns True if only this user can change the contents of a folder, or replace it or a folder above."""
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


def is_on_disk(digest: str) -> bool:
    """Returns True if the machine code of a kernel is on disk, for any machine."""
    folder = cache_folder()
    return folder is not None and any(folder.glob(f"{digest}-*.kernel"))


def kernel_of(
    digest: str, title: str, make: Callable[[], tuple[FunctionType, Sequence[Any]]], options: Mapping[str, Any]
) -> Callable[..., Any]:
    """Loads the machine code of a kernel from disk, or compiles what `make` returns: a function, and its arguments."""
    from numba.core.compiler_lock import global_compiler_lock  # imported here, because only compiling needs numba
    from numba.core.registry import cpu_target

    context: Any = cpu_target.target_context
    machine = blake2s(repr(context.codegen().magic_tuple()).encode(), digest_size=4).hexdigest()
    folder = cache_folder()
    file = None if folder is None else folder / f"{digest}-{machine}.kernel"
    with global_compiler_lock:
        loaded = None if file is None else _load(file, context)
        if loaded is None:
            started = time.perf_counter()
            loaded = _compile(*make(), options)
            seconds = time.perf_counter() - started
            if file is not None and _save(loaded, file) and seconds > SLOW:
                print(  # noqa: T201
                    f"envoi: compiled {title} in {seconds:.1f} s; later processes load it from disk", file=sys.stderr
                )
        _IN_USE.append(loaded)
        return loaded.entry_point


_IN_USE: list[Any] = []
"""The results of numba whose machine code this process runs."""


def _compile(function: FunctionType, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    import numba
    from numba.core.errors import NumbaError, UnsupportedBytecodeError

    try:
        made = numba.njit(tuple(map(numba.typeof, arguments)), **options)(function)
    except (NumbaError, UnsupportedBytecodeError, NotImplementedError) as error:  # the last is of values without code
        raise NotCompilable(reason_of(error)) from error
    return next(iter(made.overloads.values()))


def _save(compiled: Any, file: Path) -> bool:
    """Writes machine code to disk, unless it holds addresses of this process; returns True if it did."""
    import tempfile

    from numba.core.serialize import dumps

    library = compiled.library
    if library.has_dynamic_globals:
        return False
    *parts, environments = compiled._reduce()
    module = library._final_module
    outside = [one.name for one in (*module.functions, *module.global_variables) if one.is_declaration]
    # numba's own cache imports the modules of all functions in the code, for the sake of these globals.
    parts[2], *environments = [(one.consts, one.env_name) for one in (parts[2], *environments)]
    with contextlib.suppress(OSError):
        with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".part", delete=False) as part:
            data = dumps((parts, environments, [name for name in outside if not name.startswith("llvm.")]))
            part.write(blake2s(data).digest() + data)
        Path(part.name).replace(file)  # whole, because processes that start together compile side by side
        return True
    return False


C = ctypes.CDLL(None)
"""The functions of C that this process has."""


def add_symbols() -> None:
    """Makes functions of C known to kernels; `pow` by another name, because LLVM would turn a square into a product."""
    from llvmlite.binding import add_symbol

    for known, name in (("envoi_pow", "pow"), ("sincos", "sincos")):
        if hasattr(C, name):
            add_symbol(known, ctypes.cast(getattr(C, name), ctypes.c_void_p).value)


def _load(file: Path, context: Any) -> Any:
    """Loads machine code from a file; returns None if there is no file or it is damaged."""
    import llvmlite.binding
    from numba.core.compiler import CompileResult
    from numba.core.environment import _rebuild_env
    from numba.core.runtime.nrt import rtsys

    add_symbols()
    try:
        data = memoryview(file.read_bytes())
        if blake2s(data[32:]).digest() != data[:32]:  # code with a wrong byte may do anything
            return None
        parts, environments, outside = pickle.loads(data[32:])  # noqa: S301 (the folder is the user's alone)
        parts[2], *environments = [_rebuild_env(__name__, *one) for one in (parts[2], *environments)]
    except Exception:  # there is no file; or a damaged one, of which pickle raises anything
        return None
    # A refresh of the context takes some 0.2 s, and imports scipy; what kernels call is there without it.
    rtsys.initialize(context)
    if not all(map(llvmlite.binding.address_of_symbol, outside)):
        context.refresh()
    rebuild: Any = CompileResult._rebuild
    return rebuild(context, *parts, environments)


def author_function(value: Any) -> FunctionType | None:
    """Returns the author's Python function, also from inside numba's `jit`; None for anything of a library."""
    function = getattr(value, "py_func", value)
    return function if isinstance(function, FunctionType) and not is_of_library(function) else None


def is_of_library(value: Any) -> bool:
    """Returns True for objects of Python, numpy or numba; the digest contains the versions of these."""
    named = value if isinstance(value, type) or callable(value) else type(value)
    module = value.__name__ if isinstance(value, ModuleType) else getattr(named, "__module__", None) or "builtins"
    return module.partition(".")[0] in ("numpy", "numba", "math", "builtins")


def is_constant(value: Any) -> bool:
    """Returns True for None, numbers, strings, arrays of numbers, and tuples of these."""
    if isinstance(value, tuple):
        parts: tuple[Any, ...] = value
        return all(is_constant(part) for part in parts)
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf"
    return value is None or isinstance(value, (bool, int, float, str, np.number, np.bool_))
