"""`mini-vllm bench scheduler --peer vllm`: both schedulers do the same work, and what is shown is what was measured."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from bench import peer_process
from bench import scheduler as bench
from bench.vllm_scheduler import admit, compare, decode_in_turns, ours
from mini_vllm import parse_lineup
from tests.bench.conftest import executable
from tests.cli.conftest import Commands

SIDE = ours(parse_lineup("solution:1-5"))
COMMAND = ("bench", "scheduler", "--peer", "vllm")
CASE = {"name": "decode, 16 running", "peer": "vLLM 0.13.0", "ours": [2.0, 2.0, 6.0], "theirs": [8.0, 10.0, 10.0]}


@pytest.mark.parametrize(
    ("program", "exit_code", "shown"),
    [
        (None, 2, "`python -m tools.vllm_peer` makes one"),
        ("raise SystemExit('no vllm here')", 1, "exited early; its last line: no vllm here"),
        (f"print({json.dumps(CASE)!r})", 0, "2.00 us, 0.25 (0.20 to 0.60)"),
    ],
)
def test_what_is_shown(
    mini_vllm: Commands,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    program: str | None,
    exit_code: int,
    shown: str,
) -> None:
    python = executable(tmp_path, program) if program else Path("nowhere")
    monkeypatch.setattr(peer_process, "VLLM_PYTHON", python)
    monkeypatch.setenv("COLUMNS", "80")
    output = mini_vllm(*COMMAND, exit_code=exit_code).output
    assert shown in output
    assert all(len(line) <= 80 for line in output.splitlines() if "█" in line)
    if exit_code == 0:
        assert json.loads(mini_vllm(*COMMAND, "--json").stdout)["compared"][0]["ratio"] == 0.25
        assert "needs phase 2" in mini_vllm(*COMMAND, "--lineup", "solution:1", exit_code=2).output


def test_schedulers_that_do_different_work_are_not_compared() -> None:
    one_less = replace(SIDE, num_free_blocks=lambda scheduler: SIDE.num_free_blocks(scheduler) - 1)
    with pytest.raises(RuntimeError, match=r"ours has \d+ free blocks after the same steps, vLLM's \d+"):
        decode_in_turns([SIDE, one_less], 4, 1)
    with pytest.raises(RuntimeError, match=r"a step has 7 requests, not 8"):
        admit(replace(SIDE, scheduler=lambda size, budget: SIDE.scheduler(size - 1, budget)), 8)


def test_what_is_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "RUNNING", (4, 1024))
    cases = list(compare([SIDE, SIDE], 2, 8))
    assert [case["name"] for case in cases] == ["decode, 4 running", "decode, 1,024 running", "arrival", "admission"]
    assert all(len(case[side]) == 2 and min(case[side]) > 0 for case in cases for side in ("ours", "theirs"))


@pytest.mark.skipif(
    not peer_process.VLLM_PYTHON.exists() and not os.environ.get("REQUIRE_VLLM"),
    reason="`python -m tools.vllm_peer` makes the peer",
)
def test_vllms_own_scheduler_does_the_same_work(mini_vllm: Commands) -> None:
    record = json.loads(mini_vllm(*COMMAND, "--quick", "--json").stdout)
    assert {case["peer"] for case in record["compared"]} == {"vLLM 0.13.0"}
