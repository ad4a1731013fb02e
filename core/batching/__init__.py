"""Batches of lanes: how values are stacked, loops over environments, models of all lanes at once, agents as lanes."""
