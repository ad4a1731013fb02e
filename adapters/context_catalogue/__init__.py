"""Context features of known environments, one module per family; see `envoi.adapters.shared.contexts`."""

from envoi import UniformFloat

Ranges = dict[str, tuple[float, float]]
"""The lowest and the highest values of features, by name."""


def feature(name: str, low: float, high: float, default: float, kind: type = UniformFloat) -> UniformFloat:
    """Makes a feature. Widens the bounds if the default lies outside, because a source may have any values."""
    return kind(name, min(low, default), max(high, default), default)
