"""Errors of envs inside RLlib's processes: how they are found, recorded, and how they stop the training.

env_guard.py       watches the calls of an env in an env runner: errors, time, NaN, values outside their specs
batch_guard.py     the same for a batch of lanes
value_checks.py    the checks of values: NaN (nan.py), and a sample of them against their specs
error_origin.py    the lane in which an error was raised
watchdog.py        the thread that watches how long calls take
failure.py         the description of a failure
shared_records.py  what an env runner leaves for the process of the algorithm, in Ray's key-value store
runner_process.py  restarts of an env runner and of its envs
nothing_learned.py the warning of a job that learns nothing
checkpoint_writes.py  errors of checkpoints that cannot be written
driver_watch.py    the algorithm's side: stops the training with the env's own error
"""
