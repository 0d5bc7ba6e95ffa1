"""SIGTERM ends a server, in any state, at most five seconds after the grace period for its requests."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil
import pytest

from labs.phase1_scheduler_step import starter
from mini_vllm.assembly.lineup import CHECKOUT
from tests.serving.running import COMPLETION, PATIENCE, RawConnection, ServerUnderTest, serve_command, wait_until

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM that a process could handle")
MAX_SECONDS = 5.0
FLEET = ("--data-parallel-size", "2")
LOOPS_WHILE_THERE_IS_A_FILE = """
from pathlib import Path
from mini_vllm_labs.cli.serving import call_watch
from solutions import phase1_scheduler_step as phase1
call_watch.LIMIT = {limit}
gate, original = Path({gate!r}), phase1.schedule_step
exec(compile('''
def schedule_step(*given, **named):
    while gate.exists():
        pass
    return original(*given, **named)
''', {starter!r}, "exec"), names := dict(gate=gate, original=original))
phase1.schedule_step = names["schedule_step"]
"""
Process = subprocess.Popen[str]


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """While this file exists, every started server's scheduler hangs in its step, as in an endless loop."""
    gate = tmp_path / "gate"
    program = LOOPS_WHILE_THERE_IS_A_FILE.format(
        gate=str(gate), starter=starter.__file__, limit=getattr(request, "param", 60.0)
    )
    # Python imports this file first, in all of the server's processes.
    (tmp_path / "sitecustomize.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(CHECKOUT)]))
    return gate


def begin_stream(address: str) -> RawConnection:
    """Return a connection whose stream has begun and would continue for a long time."""
    connection = RawConnection(ServerUnderTest(address, None, None))  # type: ignore[arg-type]
    connection.ask(COMPLETION, stream=True, max_tokens=1900, ignore_eos=True)
    connection.read_until(b"data: ")
    return connection


def require_end(process: Process, granted: float = 0.0) -> None:
    """Send SIGTERM; require that the server and all its processes exit in time."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    process.terminate()
    began = time.monotonic()
    process.wait(PATIENCE)
    assert time.monotonic() - began < MAX_SECONDS + granted
    _, alive = psutil.wait_procs(family, timeout=1.0)
    assert not [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]


def is_told(address: str) -> Callable[[], bool]:
    """Return a condition that holds once the server reports that its engine has stopped."""
    return lambda: httpx.get(f"{address}/health", timeout=PATIENCE).status_code == 503


@pytest.mark.parametrize("options", [(), FLEET], ids=["one", "fleet"])
@pytest.mark.parametrize("seconds", ["0", "1"])
def test_with_a_stream_in_flight(options: tuple[str, ...], seconds: str) -> None:
    with serve_command("--shutdown-timeout", seconds, *options) as (process, address):
        httpx.post(f"{address}/live/pace", json={"steps_per_second": 2})
        with begin_stream(address):
            require_end(process, float(seconds))


@pytest.mark.parametrize("options", [(), FLEET], ids=["one", "fleet"])
def test_while_a_learners_step_loops_and_nobody_has_noticed(gate: Path, options: tuple[str, ...]) -> None:
    with serve_command("--shutdown-timeout", "0", *options) as (process, address), begin_stream(address):
        gate.touch()
        time.sleep(0.5)
        require_end(process)


@pytest.mark.parametrize("gate", [1.0], indirect=True, ids=["told after a second"])
def test_after_a_learners_endless_step_was_reported(gate: Path) -> None:
    with serve_command() as (process, address), begin_stream(address):
        gate.touch()
        wait_until(is_told(address), "the endless step is told")
        require_end(process)
        assert process.stderr is not None
        assert "Your code was still running after 1 seconds of CPU time" in process.stderr.read()


def test_after_the_engine_has_died() -> None:
    with serve_command() as (process, address), begin_stream(address):
        [engine] = [child for child in psutil.Process(process.pid).children() if "spawn_main" in str(child.cmdline())]
        engine.kill()
        wait_until(is_told(address), "the death is told")
        require_end(process)


@pytest.mark.parametrize("num_dead", [1, 2])
def test_after_replicas_have_died(num_dead: int) -> None:
    with serve_command(*FLEET) as (process, address):
        children = psutil.Process(process.pid).children()
        replicas = [child for child in children if "spawn_main" in str(child.cmdline())]
        for replica in replicas[:num_dead]:
            replica.kill()
        psutil.wait_procs(replicas[:num_dead], timeout=PATIENCE)
        if num_dead == 2:
            wait_until(is_told(address), "no replica is left")
        require_end(process)
