"""The commands of `envoi`, by what they are about. Each command itself imports the modules that are slow to import."""

from ..app import app, run
from . import bench, check, info, render, results, train

__all__ = ["app", "bench", "check", "info", "render", "results", "run", "train"]
