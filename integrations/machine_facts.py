"""Facts that a file of measurements states: the date, the kind of machine and the versions of packages."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import envoi
from envoi.adapters import FRAMEWORKS


def machine_facts(packages: Iterable[str] = ()) -> dict[str, Any]:
    """Returns the date, the kind of machine and installed versions, without names of hosts, users or paths."""
    versions = {"envoi": envoi.__version__, "python": platform.python_version()}
    frameworks = (row.package.replace("_", "-") for row in FRAMEWORKS.values() if row.package != "envoi")
    for package in dict.fromkeys(("numpy", *frameworks, *packages)):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    kind = {"cpu": _cpu(), "cores": os.cpu_count(), "system": platform.system(), "machine": platform.machine()}
    return {"date": datetime.now(UTC).isoformat(timespec="seconds"), "machine": kind, "versions": versions}


def _cpu() -> str:
    """Returns the model of the processor, if the system reports it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
