"""Errors that come through Ray."""

import pytest
import ray

import envoi

LOST = ("observation['text']", "dtype", "complex64", "RLlib", "split it")


@pytest.mark.parametrize(
    "error",
    [
        envoi.LossyConversion(*LOST),
        envoi.LossyConversion("a message"),
        envoi.UnknownName("a message"),
        envoi.MissingBackend("a message"),
    ],
    ids=["fields", "message", "unknown name", "import error"],
)
def test_error_of_a_ray_task_keeps_message_and_fields(ray_session, error):
    @ray.remote
    def task():
        raise error

    with pytest.raises(type(error), match=r"a message|cannot express its dtype") as caught:
        ray.get(task.remote())
    arrived = caught.value.cause
    assert (type(arrived), str(arrived), vars(arrived)) == (type(error), str(error), vars(error))
