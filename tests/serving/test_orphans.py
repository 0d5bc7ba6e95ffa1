"""Killing a server leaves no process running, whatever it and its engines were doing, and whichever process was
killed."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from tests.serving.running import COMPLETION, PATIENCE, RawConnection, ServerUnderTest, serve_command, wait_until

STARTS_WHAT_NEVER_ENDS = """
import os, subprocess, threading
from solutions import phase1_scheduler_step as phase1
def schedule_step(*given, **named):
    threading.Thread(target=threading.Event().wait).start()
    subprocess.Popen(["sleep", "998"])
    os.system("sleep 999")
phase1.schedule_step = schedule_step
"""
COMMAND = [
    sys.executable,
    "-m",
    "mini_vllm_labs.cli",
    "serve",
    "--port",
    "0",
    "--lineup",
    "solution:1-5",
    "--fake-model",
]
FLEET = ("--data-parallel-size", "2")


def family(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return list[psutil.Process](psutil.Process(process.pid).children(recursive=True))


def require_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE)
    names = [" ".join(process.cmdline()) for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    for process in alive:
        process.kill()
    assert not names


@pytest.fixture(params=[(), FLEET], ids=["one", "fleet"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    with serve_command(*request.param) as command:
        yield command


@pytest.mark.parametrize("state", ["idle", "streaming", "paused"])
def test_a_killed_server_leaves_no_process(served: tuple["subprocess.Popen[str]", str], state: str) -> None:
    process, address = served
    with httpx.Client(base_url=address) as http, http.stream("GET", "/live/stream") as page:
        pieces = page.iter_bytes()
        next(pieces)  # makes sure that a drawing process exists, and keeps running
        if state == "paused":
            assert http.post("/live/pace", json={"steps_per_second": 0}).status_code == 200
        if state != "idle":
            connection = stream_of(address)
        if state == "streaming":
            connection.read_until(b"data: ")
        processes = family(process)
        assert len(processes) >= 2
        process.kill()
        require_gone(processes)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no groups of processes")
@pytest.mark.parametrize("options", [(), FLEET], ids=["one", "fleet"])
@pytest.mark.parametrize("ending", ["SIGTERM", "server killed", "engine killed"])
def test_processes_started_by_a_step_end_too(
    options: tuple[str, ...], ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(STARTS_WHAT_NEVER_ENDS)  # Python imports this file first
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(CHECKOUT)]))
    with serve_command("--shutdown-timeout", "1", *options) as (process, address), stream_of(address):
        wait_until(lambda: len(sleeping(process)) == 2, "the step has started both")
        started, began = sleeping(process), time.monotonic()
        if ending == "SIGTERM":
            process.terminate()
            process.wait(PATIENCE)
            assert time.monotonic() - began < 1.0 + 5.0
        elif ending == "server killed":
            process.kill()
        else:
            for one in started[0].parents()[:-1]:
                if "spawn_main" in str(one.cmdline()):
                    one.kill()
        require_gone(started)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no groups of processes")
def test_a_process_that_ends_its_group_leaves_nothing() -> None:
    code = "import subprocess; from mini_vllm.engine.engine_process_main import lead_group; lead_group(); "
    code += "from mini_vllm.engine.process_group import end_group; "
    code += "print(subprocess.Popen(['sleep', '997'], stdout=subprocess.DEVNULL).pid, flush=True); end_group()"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False, cwd=CHECKOUT)
    require_gone([psutil.Process(int(done.stdout))] if psutil.pid_exists(int(done.stdout)) else [])


def stream_of(address: str) -> RawConnection:
    connection = RawConnection(ServerUnderTest(address, None, None))  # type: ignore[arg-type]
    connection.ask(COMPLETION, stream=True, max_tokens=1900, ignore_eos=True)
    return connection


def sleeping(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return [one for one in family(process) if one.name() == "sleep"]


@pytest.mark.parametrize("options", [(), FLEET], ids=["one", "fleet"])
@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.5])
def test_a_server_killed_while_it_starts_leaves_no_process(options: tuple[str, ...], seconds: float) -> None:
    with subprocess.Popen(
        [*COMMAND, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    ) as process:
        wait_until(lambda: bool(family(process)), "a process has been started")
        time.sleep(seconds)
        processes = family(process)
        process.kill()
        require_gone(processes)


def test_a_killed_replica_leaves_no_process_and_the_terminal_says_so() -> None:
    with serve_command(*FLEET) as (process, address):
        with httpx.Client(base_url=address) as http, http.stream("GET", "/live/stream") as page:
            pieces = page.iter_bytes()
            next(pieces)
            replicas = [
                child for child in psutil.Process(process.pid).children() if "spawn_main" in str(child.cmdline())
            ]
            below = [each for replica in replicas for each in replica.children(recursive=True)]
            for replica in replicas:
                replica.kill()
            require_gone([*replicas, *below])
        wait_until(lambda: httpx.get(f"{address}/health").status_code == 503, "no replica is left")
        message = httpx.get(f"{address}/health").json()["error"]["message"]
        assert "replica 0: its process has exited with code -9" in message
        process.terminate()
        assert process.stderr is not None
        assert "replica 1 takes no more requests: its process has exited with code -9" in process.stderr.read()
