"""Wrappers, written once for single environments and batches."""

from .timelimit import TimeLimit
from .validated import Validated, ValidatedMulti

__all__ = ["TimeLimit", "Validated", "ValidatedMulti"]
