"""Parts that benchmarks share: environments that do nothing, loops over them, interleaved rounds, rows and files."""
