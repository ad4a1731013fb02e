"""The requirements, by theme."""
