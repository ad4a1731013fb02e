"""Each part of Ray that envoi relies on although Ray does not document it: where a new Ray moves one, this says so."""
# ruff: noqa: E501 (a table)

import inspect
from importlib import import_module

import pytest

pytest.importorskip("ray")

RLLIB = "ray.rllib"
INTERNALS = [
    # (module, name in it, parameters that envoi passes or receives, who relies on it, what to do)
    ("ray.tune.registry", "_global_registry.get", ("category", "key"), "registration.registered", "look envs up elsewhere"),
    ("ray.tune.registry", "_global_registry.contains", ("category", "key"), "registration.registered", "as above"),
    ("ray.experimental.internal_kv", "_internal_kv_put", ("key", "value", "namespace"), "faults.shared_records", "use an actor"),
    ("ray.experimental.internal_kv", "_internal_kv_get", ("key", "namespace"), "faults.shared_records", "as above"),
    ("ray.experimental.internal_kv", "_internal_kv_list", ("prefix", "namespace"), "faults.shared_records", "as above"),
    ("ray.experimental.internal_kv", "_internal_kv_del", ("key", "namespace"), "faults.shared_records", "as above"),
    ("ray.experimental.internal_kv", "_internal_kv_initialized", (), "faults.shared_records", "as above"),
    ("ray.runtime_context", "RuntimeContext.get_actor_id", (), "faults.shared_records", "name processes otherwise"),
    ("ray.runtime_context", "RuntimeContext.current_actor", None, "faults.driver_watch", "pass handles otherwise"),
    (f"{RLLIB}.env.env_runner_group", "EnvRunnerGroup.foreach_env_runner", ("func", "local_env_runner", "timeout_seconds"), "faults.driver_watch", "call runners otherwise"),
    (f"{RLLIB}.env.env_runner_group", "EnvRunnerGroup.num_remote_env_runners", (), "faults.driver_watch", "count runners otherwise"),
    (f"{RLLIB}.algorithms.algorithm", "Algorithm.training_step", (), "faults.driver_watch", "wrap what each iteration calls"),
    (f"{RLLIB}.algorithms.algorithm", "Algorithm.evaluate", ("parallel_train_future",), "faults.driver_watch", "as above"),
    (f"{RLLIB}.algorithms.algorithm", "Algorithm.cleanup", (), "faults.driver_watch", "wrap what `stop` calls"),
    (f"{RLLIB}.algorithms.algorithm_config", "AlgorithmConfig.__setattr__", ("key", "value"), "configuration.callbacks", "keep callbacks elsewhere"),
    (f"{RLLIB}.algorithms.algorithm_config", "AlgorithmConfig.update_from_dict", ("config_dict",), "configuration.callbacks", "as above"),
    (f"{RLLIB}.env.env_runner", "EnvRunner._try_env_step", ("actions",), "faults.runner_process (restarts)", "bound restarts otherwise"),
    (f"{RLLIB}.callbacks.callbacks", "RLlibCallback.on_environment_created", ("env_runner", "env", "env_context"), "callbacks", "bind envs elsewhere"),
    (f"{RLLIB}.callbacks.callbacks", "RLlibCallback.on_algorithm_init", ("algorithm",), "callbacks", "start the watch elsewhere"),
    (f"{RLLIB}.callbacks.callbacks", "RLlibCallback.on_train_result", ("algorithm", "result"), "callbacks", "check results elsewhere"),
    (f"{RLLIB}.callbacks.callbacks", "RLlibCallback.on_episode_end", ("episode", "prev_episode_chunks", "metrics_logger"), "callbacks", "log returns elsewhere"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("module", "path", "parameters", "user", "advice"), INTERNALS, ids=lambda value: str(value)[:60]
)
def test_part_of_ray_is_where_envoi_expects_it(module, path, parameters, user, advice):
    where = f"{module}.{path}, on which envoi.integrations.rllib.{user} relies"
    found = import_module(module)
    for name in path.split("."):
        assert hasattr(found, name), f"{where}, is gone in this Ray; {advice}"
        found = getattr(found, name)
    if parameters is None:
        return
    taken = inspect.signature(inspect.unwrap(found)).parameters
    if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in taken.values()):
        missing = [name for name in parameters if name not in taken]
        assert not missing, f"{where}, takes {list(taken)} in this Ray, not {missing}; {advice}"


CONFIG_ATTRIBUTES = (
    "callbacks_class",
    "create_env_on_local_worker",
    "delay_between_env_runner_restarts_s",
    "disable_env_checking",
    "env_config",
    "evaluation_config",
    "gym_env_vectorize_mode",
    "in_evaluation",
    "_is_frozen",
    "normalize_actions",
    "num_envs_per_env_runner",
    "restart_failed_sub_environments",
)


def test_configs_have_the_attributes_that_configure_sets():
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

    gone = [name for name in CONFIG_ATTRIBUTES if not hasattr(AlgorithmConfig(), name)]
    assert not gone, (
        f"AlgorithmConfig has no {gone} in this Ray; find their new names for integrations/rllib/configuration"
    )


def test_env_runners_make_callbacks_of_a_list_of_classes_and_copy_their_config():
    from ray.rllib.env import env_runner, multi_agent_env_runner, single_agent_env_runner

    for module in (single_agent_env_runner, multi_agent_env_runner):
        assert "force_list(self.config.callbacks_class)" in inspect.getsource(module), (
            f"{module.__name__} makes callbacks otherwise in this Ray; see configuration/callbacks.py"
        )
    assert "config.copy(copy_frozen=False)" in inspect.getsource(env_runner.EnvRunner.__init__), (
        "env runners share or freeze their config in this Ray; RunnerProcess.may_restart changes it"
    )
    assert "self.config.restart_failed_sub_environments" in inspect.getsource(env_runner.EnvRunner._try_env_step), (
        "env runners decide otherwise in this Ray whether envs are made again; see RunnerProcess.may_restart"
    )
