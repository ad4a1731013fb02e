"""The parts of Ray that envoi relies on although Ray does not document them, and the search for them in envoi's code."""
# ruff: noqa: E501 (a table)

import ast
import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for part in ("integrations/rllib", "adapters/rllib") for path in (ROOT / part).rglob("*.py"))

RLLIB = "ray.rllib"
SINGLE_RUNNER = f"{RLLIB}.env.single_agent_env_runner:SingleAgentEnvRunner"
MULTI_RUNNER = f"{RLLIB}.env.multi_agent_env_runner:MultiAgentEnvRunner"
RUNNER = f"{RLLIB}.env.env_runner:EnvRunner"
SINGLE_EPISODE = f"{RLLIB}.env.single_agent_episode:SingleAgentEpisode"
MULTI_EPISODE = f"{RLLIB}.env.multi_agent_episode:MultiAgentEpisode"
CALLBACKS = f"{RLLIB}.callbacks.callbacks:RLlibCallback"
ALGORITHM = f"{RLLIB}.algorithms.algorithm:Algorithm"
CONFIG = f"{RLLIB}.algorithms.algorithm_config:AlgorithmConfig"
GROUP = f"{RLLIB}.env.env_runner_group:EnvRunnerGroup"
BUFFER = f"{RLLIB}.env.utils.infinite_lookback_buffer:InfiniteLookbackBuffer"
SCALING = f"{RLLIB}.connectors.module_to_env.normalize_and_clip_actions:NormalizeAndClipActions"
PBT = "ray.tune.schedulers.pbt:PopulationBasedTraining"
STORE = "ray.experimental.internal_kv"

AS_RLLIB = 'compare the runner with RLlib\'s new one, line by line; until then `runner="rllib"` works'
RESUME = "find what holds this state now, or exact checkpoints leave it out"
EPISODES = "compare with RLlib's `add_env_step`; until then batched_runner/ makes episodes that differ"
MASKS = "find where the module makes its logits now, or masks do nothing"
POPULATION = "read how population based training changes a trial now; see tuning.py"

METHODS = [
    # (owner, the parameters that envoi passes to or receives of each method, what to do when a new Ray moves one)
    ("ray.tune.registry", {"_global_registry.get": "category key", "_global_registry.contains": "category key"}, "look envs up elsewhere"),
    (STORE, {"_internal_kv_put": "key value namespace", "_internal_kv_get": "key namespace", "_internal_kv_del": "key namespace"}, "keep records in an actor"),
    (STORE, {"_internal_kv_initialized": ""}, "keep records in an actor"),
    ("ray.runtime_context:RuntimeContext", {"get_actor_id": ""}, "name processes otherwise"),
    (GROUP, {"foreach_env_runner": "func local_env_runner remote_worker_ids timeout_seconds"}, "call runners otherwise"),
    (GROUP, {"num_remote_env_runners": ""}, "count runners otherwise"),
    (ALGORITHM, {"training_step": ""}, "wrap what each iteration calls, in env_failures.py"),
    (ALGORITHM, {"evaluate": "parallel_train_future"}, "wrap what each evaluation calls, in env_failures.py"),
    (ALGORITHM, {"cleanup": ""}, "wrap what `stop` calls, in env_failures.py"),
    (ALGORITHM, {"save_to_path": "path state filesystem"}, "wrap what every checkpoint is written by"),
    (ALGORITHM, {"restore_from_path": "path component filesystem"}, "wrap what every checkpoint is read by"),
    (CONFIG, {"__setattr__": "key value"}, "keep callbacks otherwise"),
    (CALLBACKS, {"on_environment_created": "env_runner env env_context"}, "bind envs elsewhere"),
    (CALLBACKS, {"on_algorithm_init": "algorithm"}, "start the watch elsewhere"),
    (CALLBACKS, {"on_train_result": "algorithm result"}, "check results elsewhere"),
    (CALLBACKS, {"on_episode_created": "episode env_runner env_index", "on_episode_start": "episode env_runner env_index"}, "see the calls in the two runners of envoi"),
    (CALLBACKS, {"on_episode_step": "episode env_runner env_index"}, "see the calls in the two runners of envoi"),
    (CALLBACKS, {"on_episode_end": "episode prev_episode_chunks metrics_logger"}, "log returns elsewhere"),
    (RUNNER, {"_try_env_step": "actions", "_try_env_reset": "seed options", "_reset_envs_and_episodes": "explore", "_log_env_steps": "metric num_steps"}, AS_RLLIB),
    (SINGLE_RUNNER, {"_sample": "num_timesteps num_episodes explore random_actions force_reset", "_new_episode": "env_index episodes", "_make_on_episode_callback": "which idx episodes"}, AS_RLLIB),
    (SINGLE_RUNNER, {"_reset_envs": "episodes shared_data explore", "_increase_sampled_metrics": "num_steps num_episodes_completed"}, AS_RLLIB),
    (MULTI_RUNNER, {"_sample": "num_timesteps num_episodes explore random_actions force_reset", "_new_episode": "env_index episodes", "_make_on_episode_callback": "which idx episodes"}, AS_RLLIB),
    (MULTI_RUNNER, {"_prune_zero_len_sa_episodes": "episode"}, AS_RLLIB),
    (f"{RLLIB}.core.learner.learner:Learner", {"_set_optimizer_lr": "optimizer lr"}, POPULATION),
    (f"{RLLIB}.core.rl_module.rl_module:RLModule", {"_forward": "batch", "_forward_train": "batch", "_forward_exploration": "batch", "_forward_inference": "batch"}, MASKS),
    (f"{RLLIB}.algorithms.dqn.torch.default_dqn_torch_rl_module:DefaultDQNTorchRLModule", {"_qf_forward_helper": "batch encoder head", "_forward_exploration": "batch t"}, MASKS),
    (f"{RLLIB}.algorithms.sac.torch.default_sac_torch_rl_module:DefaultSACTorchRLModule", {"_forward_train_discrete": "batch", "_qf_forward_train_helper": "batch encoder head squeeze"}, MASKS),
    (f"{RLLIB}.algorithms.sac.torch.default_sac_torch_rl_module:DefaultSACTorchRLModule", {"forward_target": "batch squeeze"}, MASKS),
    (f"{RLLIB}.algorithms.appo.torch.default_appo_torch_rl_module:DefaultAPPOTorchRLModule", {"forward_target": "batch"}, MASKS),
    (f"{RLLIB}.core.models.catalog:Catalog", {"_get_encoder_config": "observation_space model_config_dict action_space"}, "find where catalogs choose encoders now"),
    (f"{RLLIB}.core.models.base:Model", {"_forward": "input_dict"}, "find what encoders define now"),
    (f"{RLLIB}.core.models.torch.encoder:TorchLSTMEncoder", {"_forward": "inputs"}, "find what encoders define now"),
    (ALGORITHM, {"_report_class_trainable_checkpoint": "checkpoint_dir"}, "find what copies a checkpoint to a trial's folder, for callbacks.py"),
    (PBT, {"_exploit": "tune_controller trial trial_to_clone", "_get_new_config": "trial trial_to_clone"}, POPULATION),
]  # fmt: skip

ATTRIBUTES = [
    # (owner, names of attributes, what to do when a new Ray moves one)
    ("ray.runtime_context:RuntimeContext", "current_actor", "pass handles otherwise"),
    (RUNNER, "_needs_initial_reset _ongoing_episodes _metrics_num_env_steps_sampled", AS_RLLIB),
    (SINGLE_RUNNER, "_done_episodes_for_metrics _ongoing_episodes_for_metrics _env_to_module _module_to_env _weights_seq_no", AS_RLLIB),
    (SINGLE_RUNNER, "_cached_to_module _shared_data num_env_steps_sampled_lifetime", RESUME),
    (MULTI_RUNNER, "_done_episodes_for_metrics _ongoing_episodes_for_metrics _env_to_module _module_to_env _weights_seq_no", AS_RLLIB),
    (MULTI_RUNNER, "_cached_to_module _shared_data num_env_steps_sampled_lifetime", RESUME),
    (SINGLE_EPISODE, "_start_time _last_step_time _custom_data t_started extra_model_outputs", EPISODES),
    (MULTI_EPISODE, "env_t_to_agent_t agent_t_started agent_episodes SKIP_ENV_TS_TAG", EPISODES),
    (BUFFER, "data lookback finalized", EPISODES),
    (SCALING, "_action_space_struct normalize_actions clip_actions", "compare Scaling with the connector"),
    (f"{RLLIB}.connectors.connector_pipeline_v2:ConnectorPipelineV2", "connectors input_observation_space input_action_space", "find the parts of pipelines elsewhere"),
    (f"{RLLIB}.env.vector.sync_vector_multi_agent_env:SyncVectorMultiAgentEnv", "envs copy", "keep RLlib's vector env from copying observations otherwise"),
    (ALGORITHM, "_storage", "name the folder of a trial otherwise in callbacks.py"),
    ("ray.train._internal.storage:StorageContext", "trial_fs_path", "name the folder of a trial otherwise in callbacks.py"),
    (ALGORITHM, "env_runner_group eval_env_runner_group learner_group local_replay_buffer", RESUME),
    (f"{RLLIB}.utils.replay_buffers.episode_replay_buffer:EpisodeReplayBuffer", "rng", RESUME),
    (f"{RLLIB}.core.models.torch.encoder:TorchLSTMEncoder", "tokenizer", "find how the encoder calls its tokenizer now"),
    (f"{RLLIB}.algorithms.dqn.default_dqn_rl_module:DefaultDQNRLModule", "epsilon_schedule", MASKS),
    (CONFIG, "callbacks_class delay_between_env_runner_restarts_s disable_env_checking env_config", "find its new name for configuration.py"),
    (CONFIG, "evaluation_config gym_env_vectorize_mode in_evaluation normalize_actions num_envs_per_env_runner", "find its new name for configuration.py"),
    (CONFIG, "restart_failed_sub_environments episode_lookback_horizon count_steps_by batch_mode", "find its new name"),
    (f"{RLLIB}.env.multi_agent_env:MultiAgentEnv", "_agent_ids", "sort the agents of an env that names them in a set otherwise"),
    (PBT, "_hyperparam_mutations", POPULATION),
    (f"{RLLIB}.core.learner.learner:Learner", "_optimizer_lr_schedules", POPULATION),
    ("ray.tune.logger.tensorboardx:TBXLoggerCallback", "_summary_writer_cls", "write events into the folder of the run otherwise"),
    ("ray.tune.experiment.trial:Trial", "temporary_state", "find it elsewhere"),
    ("ray.tune.experiment.trial:_TemporaryTrialState", "saving_to", POPULATION),
]  # fmt: skip

TEXTS = [
    # (module, text of its source, what to do when it is gone)
    (f"{RLLIB}.algorithms.algorithm_config", "def update_from_dict", "make the dict that Tune makes of a config keep envoi's callbacks; see configuration.py"),
    (f"{RLLIB}.env.single_agent_env_runner", "force_list(self.config.callbacks_class)", "make callbacks of a list of classes as it does now; see configuration.py"),
    (f"{RLLIB}.env.multi_agent_env_runner", "force_list(self.config.callbacks_class)", "make callbacks of a list of classes as it does now; see configuration.py"),
    (f"{RLLIB}.env.env_runner", "config.copy(copy_frozen=False)", "let Runner.may_restart of env_guard.py change the config of a runner otherwise"),
    (f"{RLLIB}.env.env_runner", "self.config.restart_failed_sub_environments", "end restarts otherwise in Runner.may_restart of env_guard.py"),
    (f"{RLLIB}.connectors.common.agent_to_module_mapping", 'shared_data["memorized_map_structure"]', "find where rows are noted now, for batched_runner/env_runners.py"),
    ("ray.tune.tune", "TUNE_DISABLE_SIGINT_HANDLER", "keep Ray Tune from handling Ctrl-C otherwise"),
    ("ray.tune.utils.callback", "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "keep Ray Tune from writing its own logs otherwise"),
    ("ray.tune.execution.tune_controller", "TUNE_DISABLE_STRICT_METRIC_CHECKING", "let results come without a return otherwise"),
]  # fmt: skip

ENVOIS_OWN = {"_np_random_seed", "_observations", "_step"}
"""Names that envoi gives attributes of its own, by strings, and that Ray happens to use too."""


class Use(NamedTuple):
    """A private name of Ray's in envoi's code."""

    name: str
    place: str
    owner: type | None = None  # envoi's class that inherits the name from Ray; None for any other object

    def is_in(self, row_owner: str, row_name: str) -> bool:
        """Returns True if a row of the table is about this use."""
        if row_name.split(".")[0] != self.name:
            return False
        found = find(row_owner)
        return self.owner is None or not isinstance(found, type) or issubclass(self.owner, found)


def find(owner: str) -> object:
    """Returns the module, or with a colon the class in it."""
    module, _, name = owner.partition(":")
    return getattr(import_module(module), name) if name else import_module(module)


def has_attribute(owner: object, name: str) -> bool:
    """Returns True if a class, or the code of its methods or of a base's, gives its instances an attribute."""
    return hasattr(owner, name) or any(name in _assigned(kind) for kind in owner.__mro__[:-1])


@cache
def _assigned(kind: type) -> frozenset[str]:
    """Returns the names that the code of a class assigns to attributes of `self`."""
    try:
        tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(kind)))
    except (OSError, TypeError):
        return frozenset()
    fields = {node.target.id for node in ast.walk(tree) if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}  # fmt: skip
    own = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node)}  # fmt: skip
    return frozenset(fields | own)


def _is_self(node: ast.Attribute) -> bool:
    return ast.unparse(node.value) in ("self", "cls", "super()")


@cache
def private_names() -> frozenset[str]:
    """Returns all names with a leading underscore that RLlib and Tune define, their tests and examples apart."""
    import ray

    held: set[str] = set()
    for part in ("rllib", "tune"):
        for path in (Path(ray.__file__).parent / part).rglob("*.py"):
            if not {"tests", "examples", "tuned_examples", "benchmarks"}.intersection(path.parts):
                held.update(re.findall(r"(?:self\.|def |^)(_[a-z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE))
    return frozenset(held)


@cache
def uses() -> tuple[Use, ...]:
    """Returns the uses of Ray's private names in envoi's code."""
    return tuple(use for path in SOURCES for use in _uses_in(path.read_text(encoding="utf-8"), _name_of(path)))


def _uses_in(source: str, name: str) -> list[Use]:
    """Returns the uses of Ray's private names in a module.

    Three kinds of code use them: attributes of other objects than `self`, also by strings; attributes of `self` and
    methods in classes that inherit from Ray's; and imports.
    """
    tree, known = ast.parse(source), private_names()
    pieces = {id(value) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for value in node.values}
    found: list[Use] = []
    for node in ast.walk(tree):
        place = f"{name}:{getattr(node, 'lineno', 0)}"
        match node:
            case ast.Attribute(attr=used) if used in known and not _is_self(node):
                found.append(Use(used, place))
            case ast.Constant(value=str(used)) if used in known - ENVOIS_OWN and id(node) not in pieces:
                found.append(Use(used, place))
            case ast.ImportFrom(module=str(origin)) if origin.startswith("ray."):
                found += [Use(alias.name, place) for alias in node.names if re.match("_[a-z]", alias.name)]
            case ast.ClassDef():
                found += _inherited(node, getattr(import_module(name), node.name, None), name)
    return found


def _inherited(node: ast.ClassDef, kind: type | None, name: str) -> list[Use]:
    rays = [base for base in getattr(kind, "__mro__", ()) if base.__module__.startswith("ray.")]
    held = {attribute for base in rays for attribute in (*vars(base), *_assigned(base))}
    methods = {each.name: each.lineno for each in node.body if isinstance(each, ast.FunctionDef)}
    attributes = {each.attr: each.lineno for each in ast.walk(node) if isinstance(each, ast.Attribute) and _is_self(each)}  # fmt: skip
    return [
        Use(used, f"{name}:{line}", kind)
        for used, line in (attributes | methods).items()
        if used in held and re.match("_[a-z]", used)
    ]


def _name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("envoi", *parts)).removesuffix(".__init__")


def users(name: str) -> list[str]:
    """Returns the modules of envoi that contain a name."""
    word = re.compile(rf"\b{re.escape(name.split('.')[0])}\b")
    return [_name_of(path) for path in SOURCES if word.search(path.read_text(encoding="utf-8"))]
