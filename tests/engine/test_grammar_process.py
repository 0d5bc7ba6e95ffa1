"""Time and memory limits for compiling a grammar, and how its process ends. All inputs are harmless."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.engine import grammar_process
from mini_vllm.engine.grammar_process import GrammarProcesses
from tests.engine import limited_calls

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")


NUMBERS = count()


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[GrammarProcesses]:
    """Yield processes that make one call at a time."""
    with monkeypatch.context() as patch:
        patch.setattr(grammar_process, "MAX_PROCESSES", 1)
        made = GrammarProcesses()
    yield made
    made.close()


def called(processes: GrammarProcesses, function: Callable[..., Any], *arguments: object) -> Any:
    return processes.call(function, *arguments).result(60)


def child_of(processes: GrammarProcesses) -> int:
    process_id: int = called(processes, limited_calls.process_id, next(NUMBERS))
    return process_id


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_running(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
        # its other threads may still be shutting down
        return state != "Z" or len(os.listdir(f"/proc/{process_id}/task")) > 1
    except OSError:
        return False


def id_in(file: Path) -> int:
    wait_until(lambda: file.exists() and bool(file.read_text(encoding="utf-8")))
    return int(file.read_text(encoding="utf-8"))


def test_a_process_makes_many_calls_without_torch(processes: GrammarProcesses) -> None:
    ids = {child_of(processes) for _ in range(5)}
    assert len(ids) == 1
    assert os.getpid() not in ids
    assert "torch" not in called(processes, limited_calls.modules)
    assert called(processes, limited_calls.environment, "OMP_NUM_THREADS") == "1"


def test_a_call_that_takes_too_long_ends_alone(
    processes: GrammarProcesses, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = child_of(processes)
    monkeypatch.setattr(grammar_process, "MAX_SECONDS", 0.5)
    with pytest.raises(ValueError, match=r"takes more than 0\.5 seconds; shorten or simplify it"):
        called(processes, limited_calls.begins, str(tmp_path / "begun"))
    assert not is_running(id_in(tmp_path / "begun"))
    monkeypatch.undo()  # the next process has to start first
    assert child_of(processes) != first


@on_linux
def test_a_call_that_takes_too_much_memory_ends_alone(
    processes: GrammarProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grammar_process, "MAX_MEBIBYTES", 256)
    first = child_of(processes)
    assert called(processes, limited_calls.takes, 64) == 64 << 20
    with pytest.raises(ValueError, match="needs more than 256 MiB of memory; shorten or simplify it"):
        called(processes, limited_calls.takes, 300)
    assert child_of(processes) != first


def test_a_process_that_dies_fails_only_its_call(processes: GrammarProcesses) -> None:
    with pytest.raises(ValueError, match="the process that compiled it ended with code 3"):
        called(processes, limited_calls.ends, 3)
    idle = child_of(processes)
    os.kill(idle, signal.SIGKILL)
    wait_until(lambda: not is_running(idle))
    assert child_of(processes) != idle


def test_an_error_of_the_function_is_raised_here_and_its_process_lives_on(processes: GrammarProcesses) -> None:
    first = child_of(processes)
    with pytest.raises(ValueError, match=r"^structured_outputs cannot be compiled: head is undefined$"):
        called(processes, limited_calls.fails)
    assert child_of(processes) == first


def test_cancelling_ends_the_call(tmp_path: Path) -> None:
    processes = GrammarProcesses()
    futures = [processes.call(limited_calls.begins, str(tmp_path / name)) for name in ("a", "b", "never")]
    ids = [id_in(tmp_path / name) for name in "ab"]
    assert all(future.cancel() for future in reversed(futures))
    wait_until(lambda: not any(map(is_running, ids)))
    assert child_of(processes) not in ids
    assert not (tmp_path / "never").exists()
    processes.close()


@pytest.mark.parametrize("is_closed", [True, False])
def test_no_process_outlives_its_owner(tmp_path: Path, *, is_closed: bool) -> None:
    owner = GrammarProcesses()
    idle = child_of(owner)
    if is_closed:
        busy = owner.call(limited_calls.begins, str(tmp_path / "a"))
        id_in(tmp_path / "a")
        owner.close()
        with pytest.raises(ValueError, match="cannot be compiled"):
            busy.result(30)
    del owner
    gc.collect()
    wait_until(lambda: not is_running(idle))


@on_linux
def test_a_call_ends_with_a_killed_owner(tmp_path: Path) -> None:
    code = (
        "import sys; from tests.engine.test_grammar_process import *; "
        "called(GrammarProcesses(), limited_calls.begins, sys.argv[1])"
    )
    owner = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "a")])
    busy = id_in(tmp_path / "a")
    owner.kill()
    owner.wait()
    wait_until(lambda: not is_running(busy))
