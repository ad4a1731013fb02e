"""The commands of `envoi`, grouped by topic. Slow modules are imported inside the commands that need them."""

from ..app import app, run
from . import bench, info, render, results, train

__all__ = ["app", "bench", "info", "render", "results", "run", "train"]
