"""Evaluates a trained policy: whole episodes, one at a time, each from a seed of its own.

Episodes that run side by side and are counted as they end would favour the short ones.
"""

from .evaluator import compare, evaluate
from .results import Episode, Estimate, Evaluation, Form, context_labels, estimate, evaluation_file

__all__ = [
    "Episode",
    "Estimate",
    "Evaluation",
    "Form",
    "compare",
    "context_labels",
    "estimate",
    "evaluate",
    "evaluation_file",
]
