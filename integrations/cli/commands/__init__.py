"""The commands of `envoi`, a module each. Each command itself imports the modules that are slow to import."""

from ..app import app, run
from . import bench, check, envs, evaluate, info, play, render, report, runs, train

__all__ = ["app", "bench", "check", "envs", "evaluate", "info", "play", "render", "report", "run", "runs", "train"]
