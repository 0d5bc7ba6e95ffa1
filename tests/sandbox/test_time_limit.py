"""The time limit stops only code that uses CPU time or waits for a long time, and leaves nothing behind."""

import signal
import time
from collections.abc import Callable
from types import FrameType

import pytest

from mini_vllm_labs.runs.sandbox import time_limit
from mini_vllm_labs.runs.sandbox.errors import OutOfTime
from mini_vllm_labs.runs.sandbox.time_limit import TimeLimit, Watched

KEY = "the code under test"
pytestmark = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="Windows cannot wake code that sleeps")


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "PAUSE", 0.01)


def refuse(text: str) -> None:
    raise AssertionError(text)


def always(frame: FrameType | None) -> Watched:
    return KEY, 0.1


def run(limit: TimeLimit, code: Callable[[], None]) -> None:
    limit.start()
    try:
        code()
    finally:
        limit.stop()


def busy(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_busy_code_is_stopped_after_its_cpu_time_and_the_signal_is_given_back() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    limit = TimeLimit(always, refuse)
    start = time.process_time()
    with pytest.raises(OutOfTime, match=r"after 0\.1 seconds"):
        run(limit, lambda: busy(10))
    assert 0.1 <= time.process_time() - start < 5
    assert signal.getsignal(signal.SIGVTALRM) is before


def test_code_that_gets_little_cpu_time_is_not_stopped() -> None:
    limit = TimeLimit(always, refuse)
    run(limit, lambda: time.sleep(0.5))  # five times as many seconds of wall-clock time, as on a busy machine


def test_code_that_sleeps_is_woken_after_ten_times_its_seconds() -> None:
    limit = TimeLimit(always, refuse)
    start = time.monotonic()
    with pytest.raises(OutOfTime, match="after 1 second"):
        run(limit, lambda: time.sleep(60))
    assert 1 <= time.monotonic() - start < 30


def test_time_starts_anew_with_another_thing_to_limit() -> None:
    limit = TimeLimit(lambda frame: (("one", "other")[int(5 * time.process_time()) % 2], 0.3), refuse)
    run(limit, lambda: busy(1))


def test_what_a_debugger_holds_is_neither_stopped_nor_ended() -> None:
    """A debugger is detected in the thread that it traces, but not in the watching thread."""
    given_up: list[str] = []
    limit = TimeLimit(lambda frame: None if time_limit.in_main_thread() else (KEY, 0.05), given_up.append)
    run(limit, lambda: busy(0.8))
    assert not given_up
