"""Errors that come through Ray."""

import pickle

import pytest
import ray
from ray.exceptions import RayTaskError

import envoi

LOST = ("observation['text']", "dtype", "complex64", "RLlib", "split it")


def test_cause_rebuilt_by_ray_keeps_message_and_fields():
    error = RayTaskError("f", "its traceback", envoi.LossyConversion(*LOST), "worker", 1, "127.0.0.1")
    for sent in (error, pickle.loads(pickle.dumps(error))):
        raised = sent.as_instanceof_cause()
        assert isinstance(raised, envoi.LossyConversion)
        assert (raised.path, raised.field, raised.source, raised.target, raised.hint) == LOST
        assert str(raised.cause) == str(envoi.LossyConversion(*LOST))


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
