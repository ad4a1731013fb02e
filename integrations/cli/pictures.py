"""Episodes as pictures: played at random or by a trained policy, written as a GIF or shown in a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from rich.text import Text

import envoi
from envoi.adapters import load
from envoi.adapters.shared.agent_count import one_agent
from envoi.atomic_write import write_atomically

from ..errors import one_line
from ..rllib.job_process import redirected
from ..rllib.run_folder import RunFolder

MODE = "rgb_array"
FPS = 20.0
"""Pictures a second of envs that do not tell."""
Picture = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Moment:
    """A picture of an episode."""

    picture: Picture
    episode: int
    step: int
    total: float


def load_drawing(name: str) -> Any:
    """Loads an env that can render pictures."""
    scheme = name.partition(":")[0]
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")  # a game's sounds, and what SDL prints where there is no card
    if not has_display():
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    with one_line():
        if scheme in ("gymnasium", "pettingzoo"):
            return load(name, render_mode=MODE)
        try:
            return load(name, render_mode=MODE) if scheme == "python" else _drawing(load(name))
        except (TypeError, envoi.SpecError):  # a factory without this argument
            return _drawing(load(name))


def _drawing(env: Any) -> Any:
    if env.render_mode is None and MODE in env.metadata.get("render_modes", ()):
        env.unwrapped.render_mode = MODE
    return env


def has_display() -> bool:
    """Returns True if windows can be opened."""
    return not sys.platform.startswith("linux") or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())


def frames_per_second(env: Any) -> float:
    """Returns the number of pictures a second that an env is meant to be seen at."""
    return float(env.metadata.get("render_fps") or FPS)


def draw(env: Any, name: str) -> Picture:
    """Returns the picture of an env's state."""
    try:
        with one_line():
            found = env.render()
    except envoi.EnvoiError as error:
        hint = "; without a display, set MUJOCO_GL=egl or MUJOCO_GL=osmesa" if "OpenGL" in str(error) else ""
        raise envoi.EnvoiError(f"{name} cannot be rendered: {error}{hint}") from error
    picture = np.asarray(found if found is not None else ())
    if picture.ndim != 3 or picture.shape[-1] not in (3, 4):
        modes = ", ".join(env.metadata.get("render_modes", ())) or "none"
        raise envoi.EnvoiError(f"{name} renders no picture (render modes: {modes}); `envoi info {name}` describes it")
    return picture[..., :3].astype(np.uint8)


def random_episodes(name: str, env: Any, *, episodes: int, steps: int, seed: int) -> Iterator[Moment]:
    """Plays episodes with random actions."""
    if isinstance(env, envoi.BatchEnv):
        raise envoi.EnvoiError(f"{name} is a batch of {env.batch_size} lanes; give one env")
    for episode in range(episodes):
        over, total = False, 0.0
        with one_line():
            _, info = env.reset(seed=seed + episode)
        yield Moment(draw(env, name), episode, 0, 0.0)
        for step in range(1, steps + 1):
            with one_line():
                if isinstance(env, envoi.MultiEnv):
                    taken: Any = env.step(env.sample_actions(info))
                    info, over = taken.infos, not env.agents
                    total += sum(map(float, taken.rewards.values()))
                else:
                    taken = env.step(env.sample_action())
                    info, over = taken.info, bool(taken.terminated or taken.truncated)
                    total += float(np.sum(taken.reward))
            yield Moment(draw(env, name), episode, step, total)
            if over:
                break


def policy_episodes(name: str, folder: Path, env: Any, *, episodes: int, steps: int, seed: int) -> Iterator[Moment]:
    """Plays episodes with the trained policy of a run, without exploration."""
    with redirected(RunFolder(folder).log):  # what Ray prints when it is imported
        from ..rllib import load_policy
        from ..rllib.multi_agent.joint_policy import JointPolicy
        from ..rllib.policy_values import PolicyValues

        policy = load_policy(folder)
    if isinstance(policy, JointPolicy):
        yield from _joint_episodes(name, policy, env, range(seed, seed + episodes), steps)
        return
    core = one_agent(env, "envoi render")
    values = PolicyValues(name, core, policy)
    for episode in range(episodes):
        policy.reset(seed + episode)
        with one_line():
            observation, info = core.reset(seed=seed + episode)
        yield Moment(draw(env, name), episode, 0, 0.0)
        reward, total = 0.0, 0.0
        for step in range(1, steps + 1):
            action = values.decode(policy(values.encode(observation, info), reward))
            with one_line():
                taken = core.step(action)
            observation, info, reward = taken.observation, taken.info, float(taken.reward)
            total += reward
            yield Moment(draw(env, name), episode, step, total)
            if taken.terminated or taken.truncated:
                break


def _joint_episodes(name: str, policy: Any, env: Any, seeds: range, steps: int) -> Iterator[Moment]:
    from envoi.adapters import to_rllib

    form: Any = to_rllib(env, canonical="structured", action_masks=policy.sees_masks)({})
    policy.check_fits(name, form)
    for episode, seed in enumerate(seeds):
        policy.reset(seed, policy.seats_of_episode(episode))
        with one_line():
            observations, _ = form.reset(seed=seed)
        yield Moment(draw(form.core, name), episode, 0, 0.0)
        rewards: Mapping[Any, float] = {}
        ended: dict[Any, bool] = {}
        total = 0.0
        for step in range(1, steps + 1):
            actions = policy(observations, rewards, ended)
            with one_line():
                observations, rewards, terminateds, truncateds, _ = form.step(actions)
            ended = {agent: bool(terminateds.get(agent) or truncateds.get(agent)) for agent in observations}
            total += sum(map(float, rewards.values()))
            yield Moment(draw(form.core, name), episode, step, total)
            if terminateds["__all__"] or truncateds["__all__"]:
                break


def write_gif(path: Path, moments: Iterator[Moment], fps: float, show: Callable[[str], None]) -> list[Moment]:
    """Writes pictures as an animated GIF that repeats."""
    try:
        from PIL import Image
    except ImportError as error:
        raise envoi.MissingBackend("pillow is not installed; pip install 'envoi[plots]'") from error
    images: list[Any] = []
    last: dict[int, Moment] = {}
    every = max(1, round(fps / 50))
    with closing(moments):  # pyright: ignore[reportArgumentType]
        for moment in moments:
            if moment.step % every == 0:
                images.append(Image.fromarray(moment.picture).quantize(128))
            last[moment.episode] = moment
            show(f"{len(images):,} pictures")
    show(f"writing {path}")
    file = BytesIO()
    images[0].save(file, "GIF", save_all=True, append_images=images[1:], duration=round(1000 * every / fps), loop=0)
    write_atomically(path, file.getvalue())
    return list(last.values())


def as_text(picture: Picture, width: int, *, colours: bool) -> Text:
    """Returns a picture in characters, two pixels in each if there are colours."""
    high, wide = picture.shape[:2]
    rows = max(1, round(high / wide * width / 2))
    shrunk = picture[np.ix_(np.arange(2 * rows) * high // (2 * rows), np.arange(width) * wide // width)]
    text = Text(no_wrap=True)
    for row in range(rows):
        upper, lower = shrunk[2 * row], shrunk[2 * row + 1]
        for above, below in zip(upper.tolist(), lower.tolist(), strict=True):
            if colours:
                text.append("▀", style=f"rgb({','.join(map(str, above))}) on rgb({','.join(map(str, below))})")
            else:
                text.append(" .:-=+*#%@"[min(9, sum(above + below) // 154)])
        text.append("\n")
    return text
