"""A learner's endless loop is stopped and explained by every command that runs the learner's code."""

import subprocess
import sys
from pathlib import Path

import pytest

from labs.phase1_scheduler_step import starter
from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.runs.parity.scenario import PUBLIC_TRACES
from mini_vllm_labs.runs.sandbox import time_limit
from mini_vllm_labs.runs.sandbox.errors import OutOfTime
from mini_vllm_labs.runs.sandbox.time_limit import limited_calls
from tests.cli.conftest import Commands

LOOP = """
def schedule_step(*arguments, **named):
    total = 3
    while total:
        pass
"""
FOREVER = """
import sys
from mini_vllm_labs.runs.sandbox.time_limit import limited_calls
from labs.phase1_scheduler_step import starter
source = '''
def clamp():
    while True:
        try:
            while True:
                pass
        except:
            pass
'''
exec(compile(source, starter.__file__, 'exec'))
with limited_calls(0.1):
    clamp()
"""


def made(source: str, name: str) -> object:
    namespace: dict[str, object] = {}
    exec(compile(source, starter.__file__, "exec"), namespace)
    return namespace[name]


@pytest.mark.parametrize(
    "arguments",
    [
        ["trace", "--lineup", "starter:1"],
        ["demo", "--lineup", "starter:1", "--fake-model"],
        ["generate", "--lineup", "starter:1", "--fake-model", "Hello"],
        ["stages", "--lineup", "starter:1"],
        ["oracle", "--phase", "1"],
        ["parity", "--lineup", "starter:1,solution:2-5", str(PUBLIC_TRACES / "named.jsonl")],
        ["simulate", "--lineup", "starter:1,solution:2-5", "--requests", "10"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_loop_is_stopped_and_its_line_shown(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr(time_limit, "SECONDS", 0.2)
    monkeypatch.setattr(time_limit, "PAUSE", 0.05)
    monkeypatch.setattr(time_limit, "WAITING_FACTOR", 1000.0)  # on a busy machine, 0.2 s of CPU time can take 2 s
    for name in ("clamp", "update_from_output"):
        monkeypatch.setattr(starter, name, lambda *_: None)
    monkeypatch.setattr(starter, "schedule_step", made(LOOP, "schedule_step"))
    shown = mini_vllm(*arguments, exit_code=1).stderr
    assert "still running after 0.2 seconds" in shown
    assert "labs/phase1_scheduler_step/starter.py:" in shown
    assert ", in schedule_step" in shown
    assert "Hint:" in shown


def test_many_short_calls_are_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "PAUSE", 0.01)
    count = made("def count():\n    return sum(range(1000))\n", "count")
    assert callable(count)
    with limited_calls(0.1):
        for _ in range(20_000):
            count()


def test_a_loop_outside_of_the_starters_is_not_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "PAUSE", 0.01)
    with limited_calls(0.05):
        sum(range(20_000_000))


def test_code_that_catches_everything_ends_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", FOREVER], capture_output=True, text=True, cwd=Path(CHECKOUT))
    assert done.returncode == 1
    assert "cannot be stopped" in done.stderr


def test_a_loop_raises_out_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "PAUSE", 0.01)
    monkeypatch.setattr(time_limit, "WAITING_FACTOR", 1000.0)
    loop = made(LOOP, "schedule_step")
    assert callable(loop)
    with pytest.raises(OutOfTime, match=r"after 0\.1 seconds"), limited_calls(0.1):
        loop()
