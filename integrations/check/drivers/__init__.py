"""Drivers: how an environment is played by its own API, one module per framework."""
