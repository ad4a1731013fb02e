"""The requirements, a module per topic."""
