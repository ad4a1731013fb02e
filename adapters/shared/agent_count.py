"""One agent among forms of several, and several among forms of one; the checks that `validate=True` asks for."""

from __future__ import annotations

from typing import overload

from envoi import (
    AgentLanes,
    Env,
    LossyConversion,
    MultiEnv,
    MultiModel,
    MultiWrapper,
    SpecError,
    Validated,
    ValidatedMulti,
    as_multi,
    as_single,
)

AGENT = "agent_0"
"""What the agent of an environment of one is called in a form of several."""


def one_agent(env: Env | MultiEnv, target: str) -> Env:
    """An environment for a framework that knows only one agent.

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
    """An environment for a framework of several agents.

    Args:
        env: The environment.
        agent: What to call the agent of an environment of one.

    Raises:
        SpecError: It is a batch.
    """
    return env if isinstance(env, MultiEnv) else as_multi(env, agent)


def agent_lanes(env: MultiEnv, target: str) -> AgentLanes:
    """The agents of an environment as the lanes of a batch.

    Raises:
        LossyConversion: The agents differ, so that lanes cannot be alike.
    """
    try:
        return AgentLanes(env)
    except SpecError as error:
        raise LossyConversion("agents", "spaces", str(error), target, "use a form of several agents") from error


def acts_at_once(env: MultiEnv) -> bool | None:
    """Returns True if all agents in play act in every step; None where an episode must begin to know it."""
    while isinstance(env, MultiWrapper):
        env = env.env
    if isinstance(env, MultiModel):
        return type(env)._turn_in is MultiModel._turn_in
    return True if type(env).turn is MultiEnv.turn else getattr(env, "at_once", None)


@overload
def validated(env: Env) -> Env: ...
@overload
def validated(env: MultiEnv) -> MultiEnv: ...
def validated(env: Env | MultiEnv) -> Env | MultiEnv:
    """The environment, with every value that passes checked against its spec."""
    return Validated(env) if isinstance(env, Env) else ValidatedMulti(env)
