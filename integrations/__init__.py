"""Engines and tools around envoi: RLlib and Tune, the command line, environment checks, evaluation, plots.

Each module imports at most one engine, and nothing else in envoi imports this package.
"""
