"""The steps of `configure`: each sets a part of an `AlgorithmConfig`, and leaves what its user has set."""
