"""Conversions between environments of one agent and of several, and the checks of `validate=True`."""

from __future__ import annotations

from typing import overload

from envoi import (
    AgentLanes,
    Env,
    LossyConversion,
    MultiEnv,
    MultiWrapper,
    SpecError,
    Validated,
    as_multi,
    as_single,
)

AGENT = "agent_0"
"""The default name of the agent, if an environment of one agent is exported as one of several."""


def one_agent(env: Env | MultiEnv, target: str) -> Env:
    """Returns an environment as one of a single agent, for a framework that supports only one.

    Args:
        env: The environment; one of a single agent is returned as it is.
        target: The framework, for the error.

    Raises:
        LossyConversion: There are several agents.
    """
    if isinstance(env, Env):
        return env
    if len(env.possible_agents) == 1:
        return as_single(env)
    agents = ", ".join(map(str, env.possible_agents))
    raise LossyConversion(
        "agents", "number", agents, target, "use a form of several agents, such as pettingzoo or rllib"
    )


def several_agents(env: Env | MultiEnv, agent: str = AGENT) -> MultiEnv:
    """Returns an environment as one of several agents.

    Args:
        env: The environment; one of several agents is returned as it is.
        agent: The name of the agent of an environment of one.

    Raises:
        SpecError: The environment is a batch.
    """
    return env if isinstance(env, MultiEnv) else as_multi(env, agent)


def agent_lanes(env: MultiEnv, target: str) -> AgentLanes:
    """Returns a batch whose n lanes are the n agents of an environment.

    Args:
        env: The environment of several agents.
        target: The framework, for the error.

    Raises:
        LossyConversion: The agents have different specs, which lanes cannot have.
    """
    try:
        return AgentLanes(env)
    except SpecError as error:
        raise LossyConversion("agents", "spaces", str(error), target, "use a form of several agents") from error


def acts_at_once(env: MultiEnv) -> bool | None:
    """Returns True if all agents in play act in every step; None where an episode must begin to know it."""
    while isinstance(env, MultiWrapper):
        env = env.env
    return True if type(env).turn is MultiEnv.turn else getattr(env, "at_once", None)


@overload
def validated(env: Env) -> Env: ...
@overload
def validated(env: MultiEnv) -> MultiEnv: ...
def validated(env: Env | MultiEnv) -> Env | MultiEnv:
    """Returns a wrapped environment that checks every value against its spec."""
    return Validated(env)
