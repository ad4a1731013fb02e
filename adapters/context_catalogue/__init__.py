"""Context features of known environments, one module per family; see `envoi.adapters.shared.contexts`."""

from envoi import UniformFloat

Ranges = dict[str, tuple[float, float]]
"""The lowest and the highest values of features, by name."""


def feature(name: str, low: float, high: float, default: float, kind: type = UniformFloat) -> UniformFloat:
    """Returns a feature with wider bounds where its default needs them: sources are made with any values."""
    return kind(name, min(low, default), max(high, default), default)
