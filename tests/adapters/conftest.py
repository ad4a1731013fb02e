"""Scripted environments must be importable by name, so that they pickle and other processes find them."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def env_runner():
    """Makes env runners of RLlib's, without `ray.init`, from a creator and arguments of methods of its config.

    With `agents` it is one for several of them, each with a policy of its own.
    """
    made = []

    def make(creator, worker=1, agents=None, evaluates=False, **settings):
        registry, algorithm = map(import_module, ("ray.tune.registry", "ray.rllib.algorithms.ppo"))
        registry.register_env("envoi-test", creator)
        config = (
            algorithm.PPOConfig().environment("envoi-test", disable_env_checking=True).env_runners(num_env_runners=0)
        )
        if agents is not None:
            policies = {str(agent) for agent in agents}
            config.multi_agent(policies=policies, policy_mapping_fn=lambda agent, *_, **__: str(agent))
        for part, arguments in settings.items():
            getattr(config, part)(**arguments)
        for name in ("rllib-single-agent-env-v0", "rllib-multi-agent-env-v0"):
            sys.modules["gymnasium"].registry.pop(name, None)
        which = ("single", "SingleAgentEnvRunner") if agents is None else ("multi", "MultiAgentEnvRunner")
        kind = getattr(import_module(f"ray.rllib.env.{which[0]}_agent_env_runner"), which[1])
        config = config.get_evaluation_config_object() if evaluates else config
        made.append(kind(config=config, worker_index=worker))
        return made[-1]

    yield make
    for runner in made:
        runner.stop()
