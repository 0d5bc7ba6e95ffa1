"""A function in a new process: its value, the explanation when it fails, and no harm to the caller."""

import contextlib
import os
import re
import sys
import time

import pytest

from course.fresh.process import OUTPUT_BYTES, FreshError, in_fresh_process
from course.sandbox import time_limit
from course.starter_status import starter_path


def add(a: int, b: int) -> int:
    print("adding")
    return a + b


def end_the_process() -> None:
    os._exit(7)


def leave() -> None:
    raise SystemExit("bye")


def sleep_long() -> None:
    time.sleep(60)


def flood() -> None:
    print("x" * (3 * OUTPUT_BYTES))


def write_everywhere() -> int:
    for fd in range(3, 30):
        with contextlib.suppress(OSError):
            os.write(fd, b"\ngarbage\n")
    return 5


def grow() -> None:
    held = [0]
    while True:
        held *= 2


def loop(body: str) -> None:
    """Run a loop in a starter's file, with a limit of 0.2 seconds."""
    time_limit.SECONDS = 0.2
    time_limit.PAUSE = 0.05
    source = f"def clamp():\n    turn = 7\n    while turn:\n        {body}\nclamp()"
    exec(compile(source, str(starter_path(1)), "exec"), {})


def refuse() -> None:
    raise ValueError("block_size must be at least 1, got 0")


def test_the_value_is_returned_and_the_output_appears(capsys: pytest.CaptureFixture[str]) -> None:
    assert in_fresh_process(add, 2, 3) == 5
    assert capsys.readouterr().out == "adding\n"


def test_the_function_runs_in_another_process() -> None:
    assert in_fresh_process(os.getpid) != os.getpid()


@pytest.mark.parametrize(
    ("function", "words"),
    [(end_the_process, "exit code 7"), (leave, "bye"), (refuse, "block_size must be at least 1, got 0")],
)
def test_an_early_end_is_explained(function: object, words: str) -> None:
    with pytest.raises(FreshError, match=words):
        in_fresh_process(function)  # type: ignore[arg-type]


def test_an_endless_loop_is_stopped_and_explained() -> None:
    with pytest.raises(FreshError) as caught:
        in_fresh_process(loop, "pass")
    assert str(caught.value).startswith("Your code was still running after 0.2 seconds.")
    assert re.search(r"^  labs/phase1_scheduler_step/starter.py:\d, in clamp", str(caught.value), re.MULTILINE)
    assert "\nHint: what changes from one round" in str(caught.value)


def test_a_loop_that_catches_everything_ends_with_a_reason() -> None:
    with pytest.raises(FreshError, match=r"after 0\.2 seconds, and cannot be stopped: it catches every"):
        in_fresh_process(loop, "try:\n            while turn: pass\n        except: pass")


def test_a_call_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(FreshError, match=r"No answer within 1\.5 seconds"):
        in_fresh_process(sleep_long, seconds=1.5)


def test_output_to_the_channel_is_not_taken_for_an_answer() -> None:
    assert in_fresh_process(write_everywhere) == 5


@pytest.mark.skipif(sys.platform != "linux", reason="not every system limits a process's data")
def test_memory_is_limited() -> None:
    with pytest.raises(FreshError, match="MemoryError"):
        in_fresh_process(grow)


def test_a_flood_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    in_fresh_process(flood)
    printed = capsys.readouterr().out
    assert len(printed) < OUTPUT_BYTES + 100
    assert "left out" in printed
