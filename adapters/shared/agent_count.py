"""Conversions between environments of one agent and of several."""

from __future__ import annotations

from envoi import AgentLanes, Env, LossyConversion, MultiEnv, MultiWrapper, SpecError, as_multi, as_single

AGENT = "agent_0"
"""The default name of the agent, if an environment of one agent is exported as one of several."""


def one_agent(env: Env | MultiEnv, target: str) -> Env:
    """Returns an environment as one of a single agent, for a framework that supports only one."""
    if isinstance(env, Env):
        return env
    if len(env.possible_agents) == 1:
        return as_single(env)
    agents = ", ".join(map(str, env.possible_agents))
    raise LossyConversion(
        "agents", "number", agents, target, "use a form of several agents, such as pettingzoo or rllib"
    )


def several_agents(env: Env | MultiEnv, agent: str = AGENT) -> MultiEnv:
    """Returns an environment as one of several agents."""
    return env if isinstance(env, MultiEnv) else as_multi(env, agent)


def agent_lanes(env: MultiEnv, target: str) -> AgentLanes:
    """Returns a batch whose n lanes are the n agents of an environment."""
    try:
        return AgentLanes(env)
    except SpecError as error:
        raise LossyConversion("agents", "spaces", str(error), target, "use a form of several agents") from error


def acts_at_once(env: MultiEnv) -> bool | None:
    """Returns True if all agents in play act in every step; None where an episode must begin to know it."""
    while isinstance(env, MultiWrapper):
        env = env.env
    return True if type(env).turn is MultiEnv.turn else getattr(env, "at_once", None)
