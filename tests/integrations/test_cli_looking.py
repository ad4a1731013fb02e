"""The commands that show an env: `envs`, `info`, `render`, `play`, and completion."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import envoi
from envoi.adapters import SCHEMES, load, names_of
from envoi.integrations.cli.app import output_console, working
from envoi.integrations.cli.commands import render
from envoi.integrations.cli.commands.info import describe_specs
from envoi.models import Catch


def test_leaves_of_nested_specs_have_their_paths():
    many = envoi.MultiDiscrete([3] * 400)
    spec = {"a": envoi.Discrete(2), "b": (envoi.Array((), "float32", name="speed"), many)}
    first, second, third = describe_specs(spec, "observation")
    assert [first, second] == [("['a']", str(spec["a"])), ("['b'][0]", str(spec["b"][0]))]
    assert len(third[1]) == 160


@pytest.mark.parametrize("name", ["gymnasium:CartPole-v1", "envoi:pursuit"])
def test_info_breaks_no_word_at_80_columns(cli, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "2000")
    whole = cli("info", name)[1].split()
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = cli("info", name)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert {*out.split()} <= {*whole}


def test_info_as_json(cli):
    document = json.loads(cli("info", "envoi:nim", "--json")[1])
    assert (document["env"], document["losses"]["pettingzoo"]) == ("envoi:nim", [])
    assert document["agents"] == ["first, second"]


def test_names_are_no_emoji(capsys):
    output_console().print("python:ship:make")
    assert capsys.readouterr().out == "python:ship:make\n"


def test_no_color_is_respected(cli, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not re.search(r"\x1b\[[39]", cli("info", "envoi:catch")[1])


# Envs.


@pytest.mark.parametrize("scheme", SCHEMES)
def test_names_that_are_listed_have_their_scheme_and_are_listed_once(scheme):
    try:
        names = names_of(scheme)
    except envoi.MissingBackend as error:
        pytest.skip(str(error))
    assert len(names) == len(set(names))
    assert all(name.startswith(f"{scheme}:") for name in names)
    assert bool(names) == (scheme != "python")
    assert "gymnasium:Ant-v4" not in names  # an older version


@pytest.mark.parametrize(
    "name",
    [
        "envoi:catch", "gymnasium:CartPole-v1", "bsuite:catch/0", "pettingzoo:classic/tictactoe_v3",
        "gymnasium:minigrid:MiniGrid-Empty-5x5-v0",  # of an installed package
    ],
)  # fmt: skip
def test_listed_names_can_be_loaded(name):
    assert name in names_of(name.partition(":")[0])
    load(name).close()


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("POLE cart", "gymnasium:CartPole-v1"),
        ("connect-four", "pettingzoo:classic/connect_four_v3"),
        ("cartpole", "bsuite:cartpole/0…19"),  # folded by their numbers
    ],
)
def test_search_takes_words_in_any_case_and_order(cli, words, shown):
    code, out, _ = cli("envs", words)
    assert (code, shown in out) == (0, True)


def test_envs_of_a_missing_package_say_so(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "bsuite.sweep", None)
    assert re.search(r"bsuite +\(.*pip install 'envoi\[bsuite\]'", cli("envs")[1])


# Pictures.


def test_gif_has_a_picture_for_each_step(cli, tmp_path):
    from PIL import Image

    written = []
    for _ in range(2):
        code, out, err = cli("render", "envoi:catch", "--gif", tmp_path / "a.gif", "--seed", "3")
        assert (code, err, "in 9 steps" in out) == (0, "", True)
        written.append((tmp_path / "a.gif").read_bytes())
    with Image.open(tmp_path / "a.gif") as image:
        assert (image.format, image.n_frames, image.info["duration"]) == ("GIF", 10, 50)
    assert written[0] == written[1]
    assert [*tmp_path.iterdir()] == [tmp_path / "a.gif"]


@pytest.mark.parametrize("name", ["gymnasium:CartPole-v1", "pettingzoo:classic/tictactoe_v3", "envoi:pursuit"])
def test_pictures_are_those_of_the_env(name):
    found = []
    env = render.load_drawing(name)
    watched = render.Watched(envoi.TimeLimit(env, 4), lambda env, *_: found.append(render.draw(env, name)))
    render.play_at_random(watched, range(1))
    assert len(found) > 1
    assert all(picture.dtype == np.uint8 and picture.shape[-1] == 3 for picture in found)
    assert any((found[0] != picture).any() for picture in found)
    env.close()


def test_picture_in_characters():
    picture = np.zeros((4, 8, 3), np.uint8)
    picture[:2] = 255
    assert render.as_text(picture, 8, colours=False).plain == "@@@@@@@@\n        \n"
    text = render.as_text(picture, 4, colours=True)
    assert text.plain == "▀▀▀▀\n"
    assert str(text.spans[0].style) == "rgb(255,255,255) on rgb(0,0,0)"


# The play.


def test_play_without_a_display_shows_random_actions(cli, monkeypatch):
    monkeypatch.setattr(render, "has_display", lambda: False)
    code, out, err = cli("play", "envoi:catch")
    assert (code, err) == (0, "random actions, because there is no display\n")
    assert "episode 1: return" in out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("envoi:cartpole", ("reset: [", "1: action ", "; reward 1.0; [")),
        ("envoi:nim", ("reset: {'first': 15", "1: action {'first': ", "reward {'first': 0.0, 'second': 0.0}")),
    ],
)
def test_play_of_an_env_without_pictures_is_in_words(cli, name, words):
    code, out, err = cli("play", name, "--random", "--steps", "3")
    assert (code, err) == (0, "")
    assert all(word in out for word in words), out
    assert len(out.splitlines()) <= 5
    assert cli("play", name, "--random", "--steps", "3")[1] == out


class WithKeys(Catch):
    def get_keys_to_action(self):
        return {(): 1, (ord("a"),): 0, "d": 2}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: load("envoi:pursuit"), "the env has several agents or lanes"),
        (lambda: load("envoi:cartpole"), "the env renders no picture"),
        (lambda: load("gymnasium:Pendulum-v1"), "the env has no keys of its own, and its actions are not one of"),
        (lambda: load("gymnasium:CartPole-v1"), "left arrow = 0, right arrow = 1"),
        (lambda: load("envoi:catch"), "1 = 0, 2 = 1, 3 = 2"),
        (WithKeys, "no key = 1, a = 0, d = 2"),
    ],
)
def test_who_can_be_played_by_which_keys(monkeypatch, make, said):
    monkeypatch.setenv("DISPLAY", ":0")
    env = make()
    assert (render.why_not(env) or render.describe_keys(render.keys_of(env))).startswith(said)
    env.close()


WINDOW = """
import pygame, sys, threading, time
from envoi.integrations.cli import main
from envoi.integrations.cli.commands.render import play_by_keys
from envoi.models import Catch
actions, starts = [], []
class Seen(Catch):
    def initial(self, rng, context):
        state = super().initial(rng, context)
        starts.append(state.ball)
        return state
    def transition(self, state, action, rng):
        actions.append(int(action))
        return super().transition(state, action, rng)
def post(key, *kinds):
    for kind in kinds:
        pygame.event.post(pygame.event.Event(kind, key=key))
def wait(until=lambda: pygame.display.get_init() and pygame.display.get_surface() is not None):
    while not until():
        time.sleep(0.02)
def press():
    wait()
    taps()
    post(pygame.K_ESCAPE, pygame.KEYDOWN)
threading.Thread(target=press, daemon=True).start()
"""


def played(code):
    """Runs code that opens a window of SDL's dummy driver, where `taps` presses keys; returns what it prints."""
    surroundings = {**os.environ, "SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy", "DISPLAY": ":9"}
    taps, play = code.split("then:")
    done = subprocess.run(
        [sys.executable, "-c", f"def taps():{taps}{WINDOW}{play}"], capture_output=True, text=True, check=False,
        env=surroundings, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_person_plays_in_a_window():
    lines = played("""
    for _ in range(3):
        post(pygame.K_RIGHT, pygame.KEYDOWN, pygame.KEYUP)
        time.sleep(0.2)
then:
main(["play", "gymnasium:CartPole-v1", "--fps", "50"])
""")
    assert "keys: left arrow = 0, right arrow = 1; Escape ends" in lines


def test_short_taps_of_keys_are_steps_each():
    lines = played("""
    post(pygame.K_3, *[pygame.KEYDOWN, pygame.KEYUP] * 3)
    wait(lambda: len(actions) >= 3)
    time.sleep(0.2)
then:
play_by_keys(Seen(), 0, 20)
print(actions)
""")
    assert lines[-1] == "[2, 2, 2]"


def test_episodes_of_a_person_are_those_of_the_seed():
    lines = played("""
    post(pygame.K_3, pygame.KEYDOWN)
    wait(lambda: len(starts) >= 4)
then:
play_by_keys(Seen(), 3, 200)
seen, env = starts[:4], Seen()
for seed in (3, None, None, None):
    env.reset(seed=seed)
print(seen == starts[-4:], len(set(seen)) > 1)
""")
    assert lines[-1] == "True True"


# Completion.


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("envoi tr", "train"),
        ("envoi train envoi:ca", "envoi:catch"),
        ("envoi train envoi:catch --algo D", "DQN"),
        ("envoi train envoi:catch --runner b", "batched"),
        ("envoi evaluate r --form g", "gymnasium"),
        ("envoi check e --frameworks gymnasium,gym", "gymnasium,gymnasium_vector"),
    ],
)
def test_shell_completes(words, offered):
    """By typer's script for bash, which asks so what to offer after some words."""
    asked = {"_ENVOI_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    command = [sys.executable, "-m", "envoi.integrations.cli"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **asked})
    assert offered in done.stdout.split()


def test_help_fits_80_columns_and_cuts_no_option(cli, monkeypatch):
    import typer.main

    from envoi.integrations.cli.commands import app

    monkeypatch.setenv("COLUMNS", "80")
    commands = {"": typer.main.get_command(app)}
    commands |= commands[""].commands
    for name, command in commands.items():
        code, out, err = cli(*[name] if name else [], "--help")
        assert (code, err) == (0, "")
        assert max(map(len, out.splitlines())) <= 80, name
        assert all(option in out for param in command.params for option in param.opts if option.startswith("--")), name
        assert "<bool>" not in out
        assert command.help and all(getattr(param, "help", None) for param in command.params), name  # noqa: PT018
        assert name != "train" or "choice([a,b])" in out
        usage = re.search(rf"Usage: envoi {name} (.*)", out) if name else None
        assert usage is None or usage[1] == usage[1].upper()
    code, out, err = cli()
    assert (code, "Usage: envoi" in out + err, "envoi: " in err) == (2, True, False)


def test_progress_that_begins_while_output_is_redirected_gives_stdout_back(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("envoi.integrations.cli.app.PATIENCE", 0)
    before, taken = sys.stdout, io.StringIO()
    with working() as show, contextlib.redirect_stdout(taken):
        show("checking")
        sys.stdout.write("of a suite")
    assert sys.stdout is before
    assert taken.getvalue() == "of a suite"
