"""Sets the options of a job on its `AlgorithmConfig`, `set` apart."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray.rllib.core.rl_module.rl_module import RLModule

import envoi
from envoi.errors import nearest

from .registration import env_of_config, register_first_lane
from .settings import Settings

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig


def apply_job_options(config: AlgorithmConfig, settings: Settings) -> None:
    """Sets learners, GPUs and evaluations of a job on a config.

    Args:
        config: The config.
        settings: The settings of the job.
    """
    config.learners(
        num_learners=settings.num_learners, num_gpus_per_learner=settings.gpus / max(1, settings.num_learners)
    )
    if settings.evaluate_every is not None:
        # One env: of several at once, RLlib would take the episodes that end first, which are the short ones.
        one_env: dict[str, Any] = {"num_envs_per_env_runner": 1}
        env = env_of_config(config)
        if env is not None and env.is_batch(config.env_config):
            one_env |= {"env": register_first_lane(env).name, "gym_env_vectorize_mode": "sync"}
        config.evaluation(
            evaluation_interval=settings.evaluate_every,
            evaluation_duration_unit="episodes",
            evaluation_config=config.overrides(explore=False, **one_env),
        )


def load_module(reference: str) -> type[RLModule]:
    """Returns the class that `python:module:Class` names.

    Raises:
        envoi.EnvoiError: Its module cannot be imported, has no such class, or the class is no `RLModule`.
    """
    _, name, attribute = reference.split(":", 2)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = import_module(name)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise envoi.EnvoiError(f"--module {reference}: {name} cannot be imported: {reason}") from error
    found: Any = getattr(module, attribute, None)
    if found is None:
        classes = [key for key, value in vars(module).items() if isinstance(value, type)]
        raise envoi.EnvoiError(f"--module {reference}: {name} has no {attribute!r}; {nearest(attribute, classes)}")
    if not isinstance(found, type) or not issubclass(found, RLModule):
        raise envoi.EnvoiError(
            f"--module {reference}: expected a class derived from RLlib's RLModule, such as TorchRLModule; "
            f"got {found!r}"
        )
    return found


def check_gpus(settings: Settings) -> None:
    """Checks that Ray has the GPUs of a trial; without them it would wait for ever.

    Raises:
        envoi.EnvoiError: It has fewer.
    """
    held = float(ray.cluster_resources().get("GPU", 0))
    if settings.gpus > held:
        raise envoi.EnvoiError(f"--gpus: a trial asks for {settings.gpus:g}, and Ray found {held:g} here")


class KeepRates:
    """Keeps the learning rates that an algorithm is built with, as a checkpoint would bring those of its own trial."""

    def note(self, *, algorithm: Any, **_: Any) -> None:
        """Notes the rates of a new algorithm; for `on_algorithm_init`.

        Args:
            algorithm: The algorithm.
            **_: Arguments of RLlib that are not used.
        """
        algorithm.learner_group.foreach_learner(_note_rates)

    def set_again(self, *, algorithm: Any, **_: Any) -> None:
        """Sets the rates again; for `on_checkpoint_loaded`.

        Args:
            algorithm: The algorithm.
            **_: Arguments of RLlib that are not used.
        """
        algorithm.learner_group.foreach_learner(_set_rates)


def _groups(learner: Any) -> list[Any]:
    module_ids = learner.module.keys()
    return [
        group
        for module_id in module_ids
        for _, optimizer in learner.get_optimizers_for_module(module_id)
        for group in optimizer.param_groups
    ]


def _note_rates(learner: Any) -> None:
    learner.envoi_rates = [group["lr"] for group in _groups(learner)]


def _set_rates(learner: Any) -> None:
    for group, rate in zip(_groups(learner), learner.envoi_rates, strict=True):
        group["lr"] = rate
