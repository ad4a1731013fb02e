"""What all benchmarks share: environments that do nothing, loops that time them, interleaved rounds, rows and files."""
