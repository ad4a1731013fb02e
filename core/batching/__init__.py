"""Batches of lanes: stacked values, loops over environments, batches of one model, and agents as lanes."""
