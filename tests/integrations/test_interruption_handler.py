"""`Interruption` handles Ctrl-C while a job starts and trains."""

import contextlib
import signal
import threading

import pytest

from envoi.integrations.rllib.job_process import Interruption


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_raises_while_a_job_starts():
    with Interruption() as interruption, pytest.raises(KeyboardInterrupt):
        press()
    assert interruption.asked


def test_ctrl_c_swallowed_by_a_library_is_raised_again():
    with Interruption() as interruption:
        with contextlib.suppress(BaseException):  # as some libraries do while they start
            press()
        with pytest.raises(KeyboardInterrupt):
            interruption.check()
        with pytest.raises(KeyboardInterrupt), interruption.patience():
            pytest.fail("training began")


def test_first_ctrl_c_asks_while_a_job_trains_and_the_second_raises():
    with Interruption() as interruption, interruption.patience():
        press()
        assert interruption.asked
        with pytest.raises(KeyboardInterrupt):
            press()


def test_earlier_handler_is_restored():
    before = signal.getsignal(signal.SIGINT)
    with Interruption():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_handler_is_unchanged_in_another_thread():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with Interruption() as interruption:
            interruption.check()
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
