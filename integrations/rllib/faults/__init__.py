"""Errors of envs inside RLlib's processes: how they are found, recorded, and how they stop the training.

guard.py         watches the calls of an env in an env runner: errors, time, NaN, values outside their specs
failure.py       the description of a failure, and where it is left for the process of the algorithm
driver_watch.py  the algorithm's side: stops the training with the env's own error
results.py       losses that are not finite, jobs that learn nothing, checkpoints that cannot be written
"""
