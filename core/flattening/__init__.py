"""Nested values as one array and back: the layout of all leaves, and how a leaf becomes numbers."""

from .layout import ORDERS, Flattening

__all__ = ["ORDERS", "Flattening"]
