"""Drivers: play an environment by its own API, one module per framework."""
