"""A job of self-play on a cluster of three nodes on this machine, of which a process and then a node are killed.

Prints a line of JSON: after each stage, the env steps, the number of env runners that answer, the games that the league
has counted, and the policies that an env runner has with other weights than the learner. Run by test_cluster.py, in a
process of its own, because a process can join only one cluster.
"""

import json
import os
import signal
import sys
import time

import numpy as np
import ray
from ray.cluster_utils import Cluster

from envoi.integrations.rllib import configure
from envoi.integrations.rllib.multi_agent.grouping import opponents

SECONDS = 60
"""Longest wait for an env runner that is restarted."""


def main():
    small = {"include_dashboard": False, "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small}, shutdown_at_exit=False)
    try:
        nodes = [cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20) for _ in range(2)]
        ray.init(cluster.address, logging_level="ERROR", log_to_driver=False)
        sys.stdout.write(json.dumps(train(cluster, nodes)) + "\n")
    finally:
        ray.shutdown()
        cluster.shutdown()


def train(cluster, nodes):
    """Trains before and after the kills; returns what each stage showed."""
    config = configure(
        "envoi:nim", policies="self-play", seed=0, num_env_runners=2, training={"train_batch_size_per_learner": 256}
    )
    config.resources(num_cpus_for_main_process=0)
    config.debugging(log_level="CRITICAL")
    algorithm = config.build_algo()
    group = algorithm.env_runner_group
    seen = {}

    def place(_):
        return os.getpid(), ray.get_runtime_context().get_node_id()

    def stage(name, runners):
        """Trains until so many env runners answer, and for one more iteration."""
        deadline = time.monotonic() + SECONDS
        while group.num_healthy_remote_workers() != runners and time.monotonic() < deadline:
            algorithm.train()
        result = algorithm.train()
        seen[name] = {
            "steps": result["num_env_steps_sampled_lifetime"],
            "runners": group.num_healthy_remote_workers(),
            "games": sum(json.loads(result["league"])["games"].values()),
            "differing": _differing(algorithm),
        }

    try:
        stage("whole", 2)
        places = group.foreach_env_runner(place, local_env_runner=False)
        os.kill(places[0][0], signal.SIGKILL)
        algorithm.train()  # in which RLlib notices
        stage("runner killed", 2)
        places = group.foreach_env_runner(place, local_env_runner=False)
        (lost,) = (node for node in nodes if node.node_id == places[0][1])
        cluster.remove_node(lost, allow_graceful=False)
        algorithm.train()
        stage("node killed", 1)
        cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
        stage("node replaced", 2)
    finally:
        algorithm.stop()
    return seen


def _differing(algorithm):
    """Returns the frozen policies of env runners that differ from the learner's."""

    def differ(one, other):
        return not all(np.array_equal(one[key], other[key]) for key in one)

    def weights(runner):
        return {name: runner.module[name].get_state(inference_only=True) for name in names}

    names = opponents(algorithm.config.policy_mapping_fn.slots)
    state = algorithm.learner_group.get_state(components="learner/rl_module", inference_only=True)
    learners = state["learner"]["rl_module"]
    runners = algorithm.env_runner_group.foreach_env_runner(weights, local_env_runner=False)
    return [name for held in runners for name in names if differ(held[name], learners[name])]


if __name__ == "__main__":
    sys.exit(main())
