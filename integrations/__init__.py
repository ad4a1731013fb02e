"""Engines and tools around envoi: RLlib and Tune, the command line, plots.

Each module imports one engine, and nothing in envoi imports this package.
"""
