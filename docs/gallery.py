"""The gallery: which environments it shows, and their pictures, which are rendered by the environments themselves.

Each picture is what `render` returns after some random steps, in few colours, so that all of them together stay small.

MUJOCO_GL=egl SDL_VIDEODRIVER=dummy python docs/gallery.py
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import envoi
from envoi.adapters import load

if TYPE_CHECKING:
    from PIL import Image

FOLDER = Path(__file__).parent / "pictures"
SHOWN = {
    "envoi": {"catch": 5, "gridworld": 6, "maze": 6, "pursuit": 3},
    "gymnasium": {
        "CartPole-v1": 9,
        "Pendulum-v1": 20,
        "Acrobot-v1": 40,
        "MountainCar-v0": 30,
        "BipedalWalker-v3": 30,
        "CarRacing-v3": 60,
        "FrozenLake-v1": 2,
        "Taxi-v3": 4,
        "CliffWalking-v1": 0,
        "Blackjack-v1": 0,
        "Ant-v5": 25,
        "HalfCheetah-v5": 25,
        "Humanoid-v5": 15,
        "minigrid:MiniGrid-DoorKey-8x8-v0": 8,
        "minigrid:BabyAI-GoToLocal-v0": 3,
    },
    "dm_control": {"walker/walk": 4, "cartpole/swingup": 30, "cheetah/run": 40, "ball_in_cup/catch": 15},
    "pettingzoo": {
        "classic/connect_four_v3": 14,
        "classic/chess_v6": 12,
        "classic/tictactoe_v3": 5,
        "classic/go_v5": 60,
        "butterfly/pistonball_v6": 30,
        "butterfly/cooperative_pong_v6": 40,
        "mpe/simple_tag_v3": 10,
    },
}
"""The names of each scheme, each with the number of random steps before its picture."""
TITLES = {
    "envoi": "envoi's own models",
    "gymnasium": "gymnasium, minigrid",
    "dm_control": "dm_control",
    "pettingzoo": "PettingZoo: multi-agent",
}
"""The headings of the schemes."""


def file_of(scheme: str, name: str) -> str:
    """Returns the name of the file of a picture."""
    return f"{scheme}-{name}".replace("/", "-").replace(":", "-").lower() + ".png"


def picture_of(scheme: str, name: str, steps: int) -> Image.Image:
    """Returns the picture of an environment after random steps."""
    arguments = {"render_mode": "rgb_array"} if scheme in ("gymnasium", "pettingzoo") else {}
    env: Any = load(f"{scheme}:{name}", **arguments)
    rng = np.random.default_rng(1)
    options = {}
    if name == "maze":  # which has no walls by default
        options = {"context": {key: one.sample(rng) for key, one in env.context_space.features.items()}}
    reset = env.reset(seed=1, options=options)
    infos = reset[1]
    for _ in range(steps):
        if isinstance(env, envoi.MultiEnv):
            step = env.step({agent: _sample(env.action_spec[agent], infos.get(agent, {}), rng) for agent in env.acting})
            infos = step.infos
        else:
            step = env.step(env.sample_action())
        if step.terminated is True or step.truncated is True or (isinstance(env, envoi.MultiEnv) and not env.agents):
            infos = env.reset()[1]
    from PIL import Image  # which only makes pictures

    return Image.fromarray(np.asarray(env.render()))


def _sample(spec: Any, info: Any, rng: np.random.Generator) -> Any:
    mask = info.get("action_mask")
    return envoi.sample(spec, rng) if mask is None else int(rng.choice(np.flatnonzero(mask)))


def small(picture: Image.Image) -> Image.Image:
    """Returns a picture of at most 300 by 200 pixels, of 48 colours."""
    from PIL import Image

    scale = min(300 / picture.width, 200 / picture.height)
    kind = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.LANCZOS
    size = round(picture.width * scale), round(picture.height * scale)
    return picture.convert("RGB").resize(size, kind).quantize(48, dither=Image.Dither.NONE)


def page() -> str:
    """Returns the pictures of all schemes as sections of the page."""
    sections = []
    for scheme, names in SHOWN.items():
        figures = (
            f'<figure><img src="pictures/{file_of(scheme, name)}" alt="{name}, rendered" loading="lazy">'
            f"<figcaption><code>{scheme}:{name}</code></figcaption></figure>"
            for name in names
        )
        sections.append(f'## {TITLES[scheme]}\n\n<div class="gallery">\n' + "\n".join(figures) + "\n</div>\n")
    return "\n".join(sections)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    with warnings.catch_warnings(action="ignore"):
        for scheme, names in SHOWN.items():
            for name, steps in names.items():
                small(picture_of(scheme, name, steps)).save(FOLDER / file_of(scheme, name), optimize=True)
                print(file_of(scheme, name))
