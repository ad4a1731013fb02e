"""Errors of envs inside RLlib's processes: how they are found, recorded, and how they stop the training.

env_guard.py       watches the calls of an env in an env runner: errors, NaN, values outside their specs
watchdog.py        the thread that watches how long calls take
failure.py         the description of a failure
shared_records.py  what an env runner leaves for the process of the algorithm, in Ray's key-value store
runner_process.py  restarts of an env runner and of its envs
driver_watch.py    the algorithm's side: stops the training with the env's own error
"""
