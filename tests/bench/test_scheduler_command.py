"""`mini-vllm bench scheduler`, also beside vLLM's: what is measured, and how it is printed."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from bench import peer_process
from bench import scheduler as bench
from bench.cli import scheduler as command
from bench.scheduler_costs import Cost, ratio
from bench.vllm_scheduler import admit, compare, decode_in_turns, ours
from mini_vllm import parse_lineup
from tests.bench.conftest import executable
from tests.cli.conftest import Commands

FULL = parse_lineup("solution:1-5")
SIDE = ours(parse_lineup("solution:1-5"))
COMMAND = ("bench", "scheduler", "--peer", "vllm")
CASE = {"name": "decode, 16 running", "peer": "vLLM 0.13.0", "ours": [2.0, 2.0, 6.0], "theirs": [8.0, 10.0, 10.0]}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"RUNNING": (4, 8), "NUM_ROUNDS": 2, "NUM_ADMISSIONS": 20, "LARGE_POOL": 20_000, "NUM_QUEUED": 500}
    small |= {"LOOKED_UP_TOKENS": 400, "NUM_LOOK_UPS": 1}
    for name, value in small.items():
        monkeypatch.setattr(bench, name, value)


@pytest.mark.usefixtures("small")
def test_bars_and_what_they_are_compared_with(mini_vllm: Commands) -> None:
    shown = mini_vllm("bench", "scheduler").output
    parts = (
        "4 running|8 running|schedule()|at arrival|20,000|400 cached|with windows|x1.00|500 wait|to join|process_time"
    )
    assert [part for part in parts.split("|") if part not in shown] == []
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("lineup", "num_tables"), [("solution:1", 3), ("solution:1-3", 5), ("solution:1-4", 6)])
def test_lineups_with_absent_phases_are_measured_too(mini_vllm: Commands, lineup: str, num_tables: int) -> None:
    costs = json.loads(mini_vllm("bench", "scheduler", "--json", "--lineup", lineup).stdout)["costs"]
    assert len(costs) == num_tables
    assert set(costs[bench.DECODES]) == set(costs[bench.BARE]) == {"4 running", "8 running"}
    assert all(
        0 < cost["best"] <= cost["median"] <= cost["worst"] for sides in costs.values() for cost in sides.values()
    )


def test_blocks_fill_in_every_round() -> None:
    for num_requests in bench.RUNNING:
        assert bench.steps_per_round(num_requests) % bench.BLOCK_SIZE == 0
    scheduler = bench.decoding_scheduler(FULL, 16, 1000)
    held = [len(scheduler.kv.block_ids(request.request_id)) for request in scheduler.running]
    bench.time_round(scheduler, bench.BLOCK_SIZE)
    assert [len(scheduler.kv.block_ids(r.request_id)) for r in scheduler.running] == [count + 1 for count in held]
    assert len(scheduler.prefix_cache.cached_blocks()) > 16


def test_admissions_share_their_prefix() -> None:
    *parts, together = bench.measure_admissions(FULL, num_rounds=1).values()
    assert together.median == pytest.approx(sum(part.median for part in parts))


def test_a_step_costs_the_same_in_a_large_pool() -> None:
    """Generous, because machines that run tests are busy: a cost that grew with the pool would be far over this."""
    assert ratio(bench.measure_pools(FULL, num_requests=16)) < 2


def test_bars_stay_in_their_column() -> None:
    cost = Cost(1.0, 2.0, 3.0)
    lines = [command.bar("x", cost, 2.0, "").plain, command.bar("x", cost, 200.0, "").plain]
    assert {line.index("2.00") for line in lines} == {lines[0].index("2.00")}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_no_request_leaves_the_long_queue_while_it_is_measured(policy: str) -> None:
    costs = bench.measure_queues(FULL, policy)  # type: ignore[arg-type]
    assert min(cost.median for cost in costs.values()) > 0


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
