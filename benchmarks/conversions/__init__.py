"""The rows of `benchmarks/conversion.py`, a file for each framework that environments come from."""
