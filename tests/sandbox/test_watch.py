"""A watched process is stopped when it reaches its CPU time limit, and not because it gets little CPU time."""

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from mini_vllm_labs.grading import children
from mini_vllm_labs.grading.children import wait
from mini_vllm_labs.runs.sandbox.explain import explain_death
from mini_vllm_labs.runs.sandbox.worker import WorkerProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="not every system measures a process's CPU time")
WATCH = """
import sys, time
from pathlib import Path
from mini_vllm_labs.runs.sandbox.watch import Watchdog
from labs.phase1_scheduler_step import starter
Watchdog(Path(sys.argv[1])).start(0.2)
exec(compile(sys.argv[2], starter.__file__, "exec"))
"""
SWALLOW = "def clamp():\n while True:\n  try:\n   while True: pass\n  except BaseException: pass\nclamp()"


def run(program: str, trace: Path) -> tuple[int, float]:
    start = time.monotonic()
    with WorkerProcess([sys.executable, "-c", WATCH, str(trace), program], has_channel=False) as child:
        assert child.wait(100)
        return child.status, time.monotonic() - start


def test_busy_code_that_catches_everything_ends_with_its_line(tmp_path: Path) -> None:
    status, _ = run(SWALLOW, tmp_path / "trace")
    assert status == -signal.SIGPROF
    outcome, message = explain_death(status, (tmp_path / "trace").read_text(encoding="utf-8"), 0.2)
    assert outcome == "timeout"
    assert message.startswith("Your code was still running after 0.2 seconds of CPU time.\n  labs/phase1_")
    assert ", in clamp" in message


def test_code_that_gets_little_cpu_time_does_not_end(tmp_path: Path) -> None:
    assert run("time.sleep(1)", tmp_path / "trace")[0] == 0


def test_code_that_waits_ends_after_ten_times_its_seconds(tmp_path: Path) -> None:
    status, seconds = run("time.sleep(60)", tmp_path / "trace")
    assert 2 <= seconds < 50
    outcome, message = explain_death(status, (tmp_path / "trace").read_text(encoding="utf-8"), 0.2)
    assert outcome == "timeout"
    assert message.startswith("No answer within 2 seconds, of which less than")
    assert "or the machine is busy with other work" in message


def test_a_child_without_its_own_limit_is_killed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(children, "waiting_seconds", lambda seconds: 600)
    child = os.fork()
    if child == 0:
        while time.process_time() < 3:
            pass
        os._exit(0)
    assert wait(child, 0.1) is None


@pytest.mark.parametrize(
    ("waited", "limit"), [(None, r"0\.2 seconds of CPU time, or 2 by the clock"), (90.0, "90 seconds")]
)
def test_the_end_by_a_limit_names_the_limit_and_blames_nothing(waited: float | None, limit: str) -> None:
    outcome, message = explain_death(None, "", 0.2, waited)
    assert outcome == "timeout"
    assert re.match(f"No answer within {limit}: .* or the machine is busy", message)
    assert "Your code" not in message
