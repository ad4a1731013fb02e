"""Evaluates policies on contexts that they were not trained on, and reports the results.

    from envoi.integrations.evaluation import evaluate

    rows = evaluate(policy, "envoi:cartpole", contexts="length=0.3..0.7:8", episodes=10)

Importing this package imports neither Ray nor torch; the evaluation of a run does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .episodes import evaluate
from .report import report

if TYPE_CHECKING:
    from .evaluator import (
        Episode,
        Estimate,
        Evaluation,
        Form,
        compare,
        context_labels,
        estimate,
        evaluate_run,
        evaluation_file,
    )

__all__ = [
    "Episode",
    "Estimate",
    "Evaluation",
    "Form",
    "compare",
    "context_labels",
    "estimate",
    "evaluate",
    "evaluate_run",
    "evaluation_file",
    "report",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".evaluator", __name__), name)  # which needs what RLlib needs
