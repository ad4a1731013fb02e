"""Lanes in processes of their own: `envoi.batch(env, n, workers=k)`."""
