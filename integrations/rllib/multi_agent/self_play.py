"""Self-play with a league inside an algorithm of RLlib: games are counted, and versions frozen, after each iteration.

The frozen policies are a fixed number of modules, whose weights are replaced. They are thus in every checkpoint, and a
restarted env runner receives them as any other module. The league itself is an item of the algorithm's metrics, which
a checkpoint has as well: the result of an iteration shows the league as of the iteration before it, restored or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .league import LEAGUE, RIVAL_RETURNS, SCORES, League
from .mapping import LEARNER, SelfPlayMapping, opponent, opponents
from .matches import points_of
from .returns import returns_by_agent


def log_score(episode: Any, earlier_chunks: Sequence[Any], metrics_logger: Any, env_runner: Any) -> None:
    """Logs the points of the learning policy in a game against a frozen one: 1 for a greater return, 0.5 for the same.

    Args:
        episode: The last chunk of RLlib's `MultiAgentEpisode`.
        earlier_chunks: The chunks before it.
        metrics_logger: RLlib's metrics logger.
        env_runner: The env runner; nothing happens if its config does not train by self-play.
    """
    if not isinstance(getattr(getattr(env_runner, "config", None), "policy_mapping_fn", None), SelfPlayMapping):
        return
    returns = returns_by_agent(episode, earlier_chunks)
    seats = {episode.module_for(agent): total for agent, total in returns.items()}
    rivals = seats.keys() - {LEARNER}
    if LEARNER in seats and len(rivals) == 1:
        (rival,) = rivals
        points = points_of(seats[LEARNER], seats[rival])
        metrics_logger.log_value((SCORES, rival), points, reduce="item_series")
        metrics_logger.log_value(RIVAL_RETURNS, seats[LEARNER], reduce="item_series")


def begin(algorithm: Any) -> None:
    """Puts the untrained policy into all slots of a new algorithm of self-play."""
    if isinstance(algorithm.config.policy_mapping_fn, SelfPlayMapping):
        _freeze(algorithm, opponents(algorithm.config.policy_mapping_fn.slots))


def advance(algorithm: Any, metrics_logger: Any, result: dict[str, Any]) -> None:
    """Counts the games of an iteration, and freezes the learning policy if it has become a member.

    Args:
        algorithm: RLlib's algorithm; nothing happens if it does not train by self-play.
        metrics_logger: Its metrics logger.
        result: The result of the iteration, which receives the league.
    """
    mapping = algorithm.config.policy_mapping_fn
    if not isinstance(mapping, SelfPlayMapping):
        return
    known = result.get(LEAGUE)
    league = League.from_json(known) if isinstance(known, str) else League.new(mapping.slots)
    league.record(_scores(result, mapping.slots))
    if league.is_due:
        steps = int(result.get("num_env_steps_sampled_lifetime", 0))
        slot = league.admit(int(result["training_iteration"]), steps)
        _freeze(algorithm, [opponent(slot)])
    result[LEAGUE] = league.to_json()
    metrics_logger.log_value(LEAGUE, result[LEAGUE], reduce="item")


def _scores(result: Mapping[str, Any], slots: int) -> dict[int, list[float]]:
    held: Mapping[str, Any] = result.get("env_runners", {}).get(SCORES, {})
    found = {slot: held.get(name) for slot, name in enumerate(opponents(slots))}
    return {slot: points for slot, points in found.items() if isinstance(points, list)}  # a NaN if none ended


def _freeze(algorithm: Any, names: Sequence[str]) -> None:
    """Copies the weights of the learning policy into frozen ones, in learners and env runners."""
    group = algorithm.learner_group
    full = group.get_state(components=f"learner/rl_module/{LEARNER}")["learner"]["rl_module"][LEARNER]
    group.set_state({"learner": {"rl_module": dict.fromkeys(names, full)}})
    acting = group.get_state(components=f"learner/rl_module/{LEARNER}", inference_only=True)
    weights = dict.fromkeys(names, acting["learner"]["rl_module"][LEARNER])

    # Without a sequence number, which is that of the weights that the runners have, and which they would ignore.
    algorithm.env_runner_group.foreach_env_runner(_Replace(weights))


class _Replace:
    """Replaces weights of modules in an env runner. A class, so that it can be pickled.

    Args:
        weights: The state of each module.
    """

    def __init__(self, weights: Mapping[str, Any]) -> None:
        self.weights = dict(weights)

    def __call__(self, env_runner: Any) -> None:
        env_runner.set_state({"rl_module": self.weights})
