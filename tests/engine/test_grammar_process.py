"""Limits of time and memory for compiling a grammar, and the end of its process. All inputs are harmless."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.assembly.elective_parts import structured_output_functions_for
from mini_vllm.core.tokenizer import ByteTokenizer
from mini_vllm.engine import grammar_process
from mini_vllm.engine.grammar_process import GrammarProcesses
from mini_vllm.engine.structured_output import StructuredOutputManager
from tests.engine import limited_calls

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")


@pytest.fixture
def processes() -> Iterator[GrammarProcesses]:
    made = GrammarProcesses()
    yield made
    made.close()


def called(processes: GrammarProcesses, function: Callable[..., Any], *arguments: object) -> Any:
    return processes.submit(partial(processes.call, function, *arguments)).result(60)


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
        return Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def id_in(file: Path) -> int:
    wait_until(lambda: file.exists() and bool(file.read_text(encoding="utf-8")))
    return int(file.read_text(encoding="utf-8"))


def test_a_process_makes_many_calls_without_torch(processes: GrammarProcesses) -> None:
    ids = {called(processes, limited_calls.process_id) for _ in range(5)}
    assert len(ids) == 1
    assert os.getpid() not in ids
    assert "torch" not in called(processes, limited_calls.modules)
    assert called(processes, limited_calls.environment, "OMP_NUM_THREADS") == "1"


def test_phase_9_is_loaded_before_the_first_grammar() -> None:
    functions = structured_output_functions_for("solution")
    assert functions is not None
    manager = StructuredOutputManager(functions, ByteTokenizer(), 257)
    assert manager.start_process().result(60)
    assert functions.build_dfa.__module__ in called(manager.processes, limited_calls.modules)
    manager.processes.close()


def test_a_call_that_takes_too_long_ends_alone(
    processes: GrammarProcesses, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = called(processes, limited_calls.process_id)
    monkeypatch.setattr(grammar_process, "MAX_SECONDS", 0.5)
    with pytest.raises(ValueError, match=r"within 0\.5 seconds, the limit for a grammar; shorten or simplify it"):
        called(processes, limited_calls.begins, str(tmp_path / "begun"))
    assert not is_running(id_in(tmp_path / "begun"))
    monkeypatch.undo()  # the next process has to start first
    assert called(processes, limited_calls.process_id) != first


@on_linux
def test_a_call_that_takes_too_much_memory_ends_alone(
    processes: GrammarProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grammar_process, "MAX_MEBIBYTES", 256)
    first = called(processes, limited_calls.process_id)
    assert called(processes, limited_calls.takes, 64) == 64 << 20
    with pytest.raises(ValueError, match="within 256 MiB of memory, the limit for a grammar; shorten or simplify it"):
        called(processes, limited_calls.takes, 300)
    assert called(processes, limited_calls.process_id) != first


def test_a_process_that_dies_fails_only_its_call(processes: GrammarProcesses) -> None:
    with pytest.raises(ValueError, match=r"1,024 MiB of memory \(its process ended with code 3\), the limit"):
        called(processes, limited_calls.ends, 3)
    idle = called(processes, limited_calls.process_id)
    os.kill(idle, signal.SIGKILL)
    wait_until(lambda: not is_running(idle))
    assert called(processes, limited_calls.process_id) != idle


def test_errors_keep_their_type_and_their_lines(processes: GrammarProcesses) -> None:
    with pytest.raises(NotImplementedError, match="Phase 9, task 2") as raised:
        called(processes, limited_calls.fails, "learner")
    assert vars(raised.value)["remote_frames"][-1].name == "fails", "a learner reads where it was raised"
    with pytest.raises(TypeError, match="required positional argument"):
        called(processes, limited_calls.fails, "odd")
    with pytest.raises(AttributeError, match="local"):
        called(processes, limited_calls.fails, "local")
    assert called(processes, limited_calls.prints, "a learner prints") == ""


def test_cancelling_ends_the_call(processes: GrammarProcesses, tmp_path: Path) -> None:
    futures = [
        processes.submit(partial(processes.call, limited_calls.begins, str(tmp_path / name)))
        for name in ("a", "b", "never")
    ]
    ids = [id_in(tmp_path / name) for name in "ab"]
    assert all(future.cancel() for future in reversed(futures))
    wait_until(lambda: not any(map(is_running, ids)))
    assert called(processes, limited_calls.process_id) not in ids
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("is_closed", [True, False])
def test_no_process_outlives_its_owner(tmp_path: Path, *, is_closed: bool) -> None:
    owner = GrammarProcesses()
    idle = called(owner, limited_calls.process_id)
    if is_closed:
        busy = owner.submit(partial(owner.call, limited_calls.begins, str(tmp_path / "a")))
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
