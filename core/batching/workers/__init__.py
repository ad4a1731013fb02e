"""Lanes in separate processes: `envoi.batch(env, n, workers=k)`."""
