"""Evaluates policies on contexts that they were not trained on, and reports the results.

    from envoi.integrations.evaluation import evaluate

    rows = evaluate(policy, "envoi:cartpole", contexts="length=0.3..0.7:8", episodes=10)

Importing this package imports neither Ray nor torch; the evaluation of a run does.
"""

from __future__ import annotations

from .episodes import evaluate
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
from .report import report

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
