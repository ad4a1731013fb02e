"""Exports multi-agent environments as RLlib's `MultiAgentEnv`. For spaces, losses, seeds see `envoi.adapters.rllib`.

| core | RLlib |
|---|---|
| observations of agents that act next, and final ones | the same: an agent that is observed and has not ended acts |
| rewards of waiting agents | returned at once; RLlib adds them up until the agent is observed again |
| `agents` | all possible agents, because RLlib's checker accepts no others |
| `infos["__common__"]`, `info["action_mask"]` | the same |
| `state`, `state_spec` | `state()`, `state_space` |

RLlib labels the recorded episode of each agent by the agent's own flags *and* by those of `"__all__"`, and treats an
episode whose recorded agents all have a flag as terminated, whichever the flags are. These flags label every agent's
episode correctly:

| the step | flags |
|---|---|
| some agents end, others do not | their own |
| the last ones end, all terminated | their own, and `terminateds["__all__"]` |
| the last ones end, all truncated | only `truncateds["__all__"]` |
| the last ones end, some truncated and some terminated | `truncateds["__all__"]`, and the own flags of the terminated; `info["terminated"]` and `info["truncated"]` of each agent have its flags |
| all that RLlib has seen end, while a new agent is in play | none: their ends and final observations are returned one step later |
"""  # noqa: E501 (a table)

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from gymnasium import spaces
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from envoi import MultiEnv, MultiReset, MultiStep
from envoi.protocol.multi_env import full_multi_step
from envoi.protocol.process import Info

from ..gymnasium.agents import AgentsForm
from ..gymnasium.form import CoreGenerator
from ..gymnasium.specs import to_space
from ..shared.arrival import with_discounts
from .codec import Codec
from .form import RLlibForm
from .masks import Masks, can_mask

ALL = "__all__"
"""The key of the flags of the whole episode."""

Ended = tuple[Any, bool, bool, Info]
"""The final observation of an agent, its two flags, and its info."""


class RLlibMultiEnv(CoreGenerator, RLlibForm, AgentsForm, MultiAgentEnv):
    """A multi-agent core environment as RLlib's env runners step it.

    Attributes:
        state_space: The space of `state()`, or None if the core has no `state_spec`.
        codecs: The codec of each agent; empty if the form is not canonical.
    """

    _planned = ("codecs", "_masks", "_is_plain")
    _memory = ("_begun", "_recorded", "_held", "_last", "_quiet_flags", "_np_random_seed")

    def __init__(self, core: MultiEnv, *settings: Any, **named_settings: Any) -> None:
        # -1 means unknown; for None, gymnasium would replace the generator when its seed is read.
        self._np_random_seed = -1
        self._begun = False
        self._last: Any = None  # a `MultiReset`, or the values of a step
        self._recorded: set[Any] = set()  # the agents whose episodes RLlib records, until it gets their ends
        self._held: dict[Any, Ended] = {}  # the ends that RLlib gets in the next step
        # The flags of a quiet step; empty while ends are held, or RLlib has not seen all agents in play.
        self._quiet_flags: dict[Any, bool] = {}
        super().__init__(core, *settings, **named_settings)
        self.action_spaces = self._space_by_agent("action")
        self.observation_spaces = {
            agent: self._masks[agent].space(space) if agent in self._masks else space
            for agent, space in self._space_by_agent("observation").items()
        }
        ordered: Any = OrderedDict  # the spaces of a plain dict would be sorted
        self.observation_space = spaces.Dict(ordered(self.observation_spaces))
        self.action_space = spaces.Dict(ordered(self.action_spaces))
        self.state_space = None if core.state_spec is None else to_space(core.state_spec, "state")

    def _space(self, what: str, agent: Any) -> spaces.Space[Any]:
        return getattr(self.codecs[agent], f"{what}_space") if self._canonical else super()._space(what, agent)

    def _plan(self) -> None:
        super()._plan()
        core = self.core
        agents = core.possible_agents
        is_structured = self._canonical == "structured"
        self.codecs = Codec.each(core, structured=is_structured, masked=self._action_masks) if self._canonical else {}
        if self._canonical:
            self._encoders = {agent: codec.encode for agent, codec in self.codecs.items()}
            self._decoders = {agent: codec.decode for agent, codec in self.codecs.items()}
        self._masks: dict[Any, Masks] = {}
        if self._action_masks:
            able = [agent for agent in agents if can_mask(core.action_spec[agent])]
            self._masks = {agent: Masks(core.action_spec[agent], f"action[{agent!r}]") for agent in able or agents}
        self._is_plain = not self._encoders and not self._masks

    # RLlib's checker accepts no others; the agents in play are `core.agents`.
    agents = AgentsForm.possible_agents  # pyright: ignore[reportAssignmentType]

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Any:
        """Starts a new episode; see `MultiAgentEnv.reset`.

        RLlib's checker resets each new environment with the same seed, which would make all of them equal. That seed is
        ignored.
        """
        is_probe = not self._begun and seed == 42 and options == {}
        seed = None if is_probe or seed is None else self.seeds.at_reset(seed)
        self._last = begun = self._env.reset(seed=seed, options=options)
        if seed is not None:
            self._np_random_seed = seed
        self._begun = True
        observations, infos = begun
        self._recorded, self._held = set(), {}
        self._meet(observations, self._env.agents)
        return (observations if self._is_plain else self.encode_observations(observations, infos)), infos

    def step(self, action_dict: Mapping[Any, Any]) -> Any:
        """Runs one step; see `MultiAgentEnv.step`."""
        own = self.__dict__  # because each attribute of a form is looked up slowly, see `OpenForm`
        if decode := own["_decoders"]:
            action_dict = {agent: decode[agent](a) if agent in decode else a for agent, a in action_dict.items()}
        observations, rewards, terminated, _, _, infos = step = own["_last"] = own["_step"](action_dict)
        if not own["_is_plain"]:
            observations = self.encode_observations(observations, infos)
        if terminated is None and (flags := own["_quiet_flags"]):
            return observations, rewards, {**flags}, {**flags}, infos
        return self._changing(full_multi_step(step), observations)

    @property
    def last(self) -> MultiReset | MultiStep | None:
        """The result of the core's last reset or step; None before the first reset."""
        last = self._last
        if last is None or isinstance(last, MultiReset):
            return last
        return full_multi_step(last)

    def encode_observations(self, observations: Mapping[Any, Any], infos: Mapping[Any, Info]) -> dict[Any, Any]:
        """Converts the core's observations for RLlib, with masks if `action_masks` is set."""
        encode = self._encoders
        encoded = {agent: encode[agent](value) if agent in encode else value for agent, value in observations.items()}
        for agent, masks in self._masks.items():
            if agent in encoded:
                encoded[agent] = masks.beside(encoded[agent], infos.get(agent, {}), observations[agent])
        return encoded

    def observation(self, agent: Any) -> Any:
        """Returns an agent's current observation, converted for RLlib, in which all actions are legal."""
        return self.encode_observations({agent: self.core.observation(agent)}, {})[agent]

    def _changing(self, step: MultiStep, observations: Mapping[Any, Any]) -> Any:
        """Converts a step in which agents may join, end or be observed first, or some discounts are not the default."""
        _, rewards, terminated, truncated, discounts, infos = step
        infos = with_discounts(infos, discounts, terminated)
        if self._held or any(terminated.values()) or any(truncated.values()):
            self._quiet_flags = {}
            return self._ending(step._replace(observations=observations, infos=infos))
        flags = self._meet(observations, terminated)
        return observations, rewards, {**flags}, {**flags}, infos

    def _meet(self, observations: Mapping[Any, Any], agents: Iterable[Any]) -> dict[Any, bool]:
        """Records which agents RLlib has seen; returns the flags of a step in which none of `agents` ends."""
        self._recorded.update(observations)
        flags = {**dict.fromkeys(agents, False), ALL: False}
        # Once RLlib has seen all agents in play, quiet steps need no checks.
        self._quiet_flags = flags if self._recorded.issuperset(agents) else {}
        return flags

    def _ending(self, step: MultiStep) -> Any:
        """Converts a step in which agents end. Some ends were held back from the step before."""
        observations, rewards, terminated, truncated, _, infos = step
        ends: dict[Any, Ended] = {
            agent: (observations[agent], bool(terminated[agent]), bool(truncated[agent]), infos[agent])
            for agent in terminated
            if terminated[agent] or truncated[agent]
        }
        remaining = [agent for agent in terminated if agent not in ends]
        sent = {**self._held, **ends}
        is_over = not self._env.agents
        self._held = {}
        known = self._recorded
        if not is_over and sent.keys() >= known:
            # RLlib would end the whole episode, because it has not seen any agent that is left.
            self._held = {agent: ends[agent] for agent in ends if agent in known}
            sent = {agent: end for agent, end in sent.items() if agent not in self._held}
        recorded = {agent for agent in sent if agent in known} or sent.keys()
        cut = {agent for agent in sent if sent[agent][2] and not sent[agent][1]}
        is_cut = is_over and bool(cut & recorded)
        is_mixed = is_cut and len(cut) < len(sent)

        sent_observations = {agent: value for agent, value in observations.items() if agent not in ends}
        sent_infos = {key: info for key, info in infos.items() if key not in ends}
        terminateds, truncateds = dict.fromkeys(remaining, False), dict.fromkeys(remaining, False)
        for agent, (observation, is_terminated, is_truncated, info) in sent.items():
            sent_observations[agent] = observation
            how = {"terminated": is_terminated, "truncated": is_truncated} if is_mixed else {}
            sent_infos[agent] = {**info, **how}
            terminateds[agent] = is_terminated
            if not is_cut or agent not in cut:
                truncateds[agent] = is_truncated
        terminateds[ALL], truncateds[ALL] = is_over and not is_cut, is_cut
        self._recorded = known.union(agent for agent in observations if agent not in ends).difference(sent)
        return sent_observations, rewards, terminateds, truncateds, sent_infos
