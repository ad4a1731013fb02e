"""Catch in contexts that weigh its reward, inside of wrappers, and when it fails; found by name in any process."""

import gymnasium

import envoi
from envoi.adapters import from_env, to_gymnasium
from envoi.models import Catch

THREE = {1: {"weight": 1.0}, "1": {"weight": 2.0}, "two": {"weight": 3.0}}


def weigh(env, context):
    env.rewarder = context["weight"] * Catch().rewarder


def weighed(env, sets=THREE):
    return envoi.Contextual(env, sets, bind=weigh, hide_context=True)


def in_two():
    return weighed(Catch(), {"a": {"weight": 1.0}, "b": {"weight": 2.0}})


def in_three():
    return weighed(Catch())


def game():
    return envoi.as_single(weighed(envoi.as_multi(Catch())))


def limited_game():
    return envoi.TimeLimit(game(), 100)


def foreign_wrapper():
    return gymnasium.wrappers.TimeLimit(to_gymnasium(in_three()), 100)


def foreign_wrapper_of_a_game():
    return envoi.TimeLimit(from_env(gymnasium.wrappers.TimeLimit(to_gymnasium(game()), 100)), 50)


class Stuck(Catch):
    def transition(self, state, action, rng):
        raise ZeroDivisionError("the ball has\nno mass")


class Blocked(Catch):
    def initial(self, *arguments):
        raise KeyError("door")


def missing():
    raise OSError("no such map")
