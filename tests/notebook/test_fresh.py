"""A function in a new process: its return value, its errors with explanations, no effect on the caller, and waiting."""

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_notebook

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.fresh.forks import ForkServer
from mini_vllm_labs.fresh.process import FreshError, ReadyProcess, in_fresh_process, saved_since, start_process
from mini_vllm_labs.runs.sandbox import time_limit
from mini_vllm_labs.runs.sandbox.worker import WorkerProcess
from mini_vllm_labs.runs.starter_status import starter_path
from tests.notebook.files import new_code_cell


def add(a: int, b: int) -> int:
    print("adding")
    return a + b


def end_the_process() -> None:
    os._exit(7)


def leave() -> None:
    raise SystemExit("bye")


def sleep_long() -> None:
    time.sleep(60)


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
    assert "\nHint: what changes from one turn" in str(caught.value)


def test_a_loop_that_catches_everything_ends_with_a_reason() -> None:
    with pytest.raises(FreshError, match=r"after 0\.2 seconds and cannot be stopped: it catches every"):
        in_fresh_process(loop, "try:\n            while turn: pass\n        except: pass")


def test_a_call_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(FreshError, match=r"No answer within 1\.5 seconds: "):
        in_fresh_process(sleep_long, seconds=1.5)


def test_output_to_the_channel_is_not_taken_for_an_answer() -> None:
    assert in_fresh_process(write_everywhere) == 5


@pytest.mark.skipif(sys.platform != "linux", reason="not every system limits a process's data")
def test_memory_is_limited() -> None:
    with pytest.raises(FreshError, match="MemoryError"):
        in_fresh_process(grow)


class Started:
    def __init__(self) -> None:
        self.workers: list[WorkerProcess] = []

    def __call__(self) -> WorkerProcess:
        self.workers.append(start_process())
        return self.workers[-1]


@pytest.fixture
def started() -> Iterator[Started]:
    made = Started()
    yield made
    for worker in made.workers:
        worker.close()


def test_each_call_has_a_process_that_was_started_before(started: Started) -> None:
    ready = ReadyProcess(started)
    waiting = [started.workers[0].pid]
    assert in_fresh_process(os.getpid, start=ready.take) == waiting[0]
    waiting.append(started.workers[1].pid)
    assert in_fresh_process(os.getpid, start=ready.take) == waiting[1] != waiting[0]
    assert [worker.is_running for worker in started.workers] == [False, False, True]


def test_a_process_older_than_the_course_is_not_handed_out(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = ReadyProcess(started)
    monkeypatch.setattr("mini_vllm_labs.fresh.process.saved_since", lambda moment: True)
    assert in_fresh_process(os.getpid, start=ready.take) == started.workers[1].pid
    assert not started.workers[0].is_running


def test_a_process_that_has_died_is_replaced(started: Started) -> None:
    ready = ReadyProcess(started)
    started.workers[0].kill()
    assert in_fresh_process(os.getpid, start=ready.take) == started.workers[1].pid


def test_the_waiting_process_ends_with_its_owner(started: Started) -> None:
    ready = ReadyProcess(started)
    in_fresh_process(os.getpid, start=ready.take)
    del ready
    assert not any(worker.is_running for worker in started.workers)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems start a process for each call")
def test_each_call_with_a_model_has_a_fork_of_one_process_that_outlives_it() -> None:
    forks = ForkServer()
    server = in_fresh_process(os.getppid, start=forks.take)
    assert in_fresh_process(os.getpid, start=forks.take) != in_fresh_process(os.getpid, start=forks.take)
    for ending, words in ((end_the_process, "exit code 7"), (os.abort, "SIGABRT"), (loop, "after 0.2 seconds")):
        with pytest.raises(FreshError, match=words):
            in_fresh_process(ending, *["pass"] * (ending is loop), start=forks.take)
    with pytest.raises(FreshError, match="No answer within 1 seconds"):
        in_fresh_process(time.sleep, 60, start=forks.take, seconds=1)
    assert in_fresh_process(os.getppid, start=forks.take) == server
    os.kill(server, signal.SIGKILL)
    time.sleep(1)
    assert in_fresh_process(os.getppid, start=forks.take) != server


def test_files_of_the_course_that_are_loaded_have_a_time() -> None:
    assert saved_since(0)
    assert not saved_since(time.time() + 60)


INTERRUPT = "threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()"
CELLS = (
    "import os, signal, threading, time\n"
    "from mini_vllm_labs.fresh import process\nfrom mini_vllm_labs.notebook import Lab",
    f"{INTERRUPT}\nprocess.in_fresh_process(time.sleep, 60)",
    f"{INTERRUPT}\nLab(6, 'solution').test()",
)


@pytest.mark.skipif(os.name != "posix", reason="the cells interrupt themselves by a signal")
def test_an_interrupted_cell_shows_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT), prepend=os.pathsep)
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in CELLS])
    NotebookClient(notebook, timeout=100, allow_errors=True, resources={"metadata": {"path": str(tmp_path)}}).execute()
    [imported, run, tests] = [cell.outputs for cell in notebook.cells]
    assert imported == []
    assert [output.traceback for output in run] == [["Interrupted: the run was stopped without a result."]]
    assert [output.traceback for output in tests] == [["Interrupted: the tests were stopped without a result."]]
