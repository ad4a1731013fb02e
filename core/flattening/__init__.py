"""Conversion of nested values to one flat array and back: the layout of the leaves, and the encoding of each leaf."""

from .layout import ORDERS, Flattening

__all__ = ["ORDERS", "Flattening"]
