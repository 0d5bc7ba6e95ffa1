"""The scheduler's benchmark measures what it claims: equal work for both cases, filled blocks, and no admissions."""

import json
import os
from dataclasses import replace

import pytest

from mini_vllm import parse_lineup
from mini_vllm.release_rules import RELEASES
from mini_vllm_labs.bench import peer_process, scheduler, scheduling
from mini_vllm_labs.bench.scheduling import Decoding, admit, beside, ours
from mini_vllm_labs.pictures.terminal.progress import unreported
from tests.cli.conftest import Commands

MAKER = ours(parse_lineup("solution:1-5"))


def test_blocks_fill_in_every_round() -> None:
    assert all(scheduling.steps_per_round(count) % scheduling.BLOCK_SIZE == 0 for count in scheduling.RUNNING)
    decoding = Decoding(MAKER, 16, {"num_blocks": 2000}, 2)
    kv, running = decoding.scheduler.kv, list(decoding.scheduler.running)
    held = [len(kv.block_ids(request.request_id)) for request in running]
    decoding.round(0)
    assert [len(kv.block_ids(request.request_id)) for request in running] == [count + 16 for count in held]
    assert len(decoding.scheduler.prefix_cache.cached_blocks()) > 16


def test_a_step_costs_the_same_in_a_large_pool() -> None:
    """The limit is generous for busy machines, but a cost that grew with the pool would far exceed it."""
    sizes = (scheduler.SMALL_POOL, scheduler.LARGE_POOL)
    pools = {str(size): Decoding(MAKER, 16, {"num_blocks": size}, scheduler.NUM_ROUNDS).round for size in sizes}
    assert scheduler.case("pools", pools, unreported).ratio(str(scheduler.LARGE_POOL)) < 2


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_no_request_leaves_the_long_queue_while_it_is_measured(monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    for name, value in {"NUM_ROUNDS": 2, "LARGE_POOL": 20_000, "NUM_QUEUED": 500}.items():
        monkeypatch.setattr(scheduler, name, value)
    case = scheduler.queue_case(MAKER, unreported, policy)  # type: ignore[arg-type]
    assert min(side.median for side in case.sides.values()) > 0


def test_schedulers_that_do_different_work_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "RUNNING", (4,))
    one_less = replace(MAKER, num_free_blocks=lambda scheduler: MAKER.num_free_blocks(scheduler) - 1)
    with pytest.raises(RuntimeError, match=r"our pool has \d+ free blocks after .*, but theirs's pool has \d+"):
        list(beside({"ours": MAKER, "theirs": one_less}, 1, 4))
    with pytest.raises(RuntimeError, match=r"a step has 7 requests instead of 8"):
        admit(replace(MAKER, scheduler=lambda size, budget: MAKER.scheduler(size - 1, budget)), 8, 0)


@pytest.mark.parametrize("release", RELEASES)
def test_decodes_arrivals_and_admissions_are_measured_in_turns(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setattr(scheduling, "RUNNING", (4, 1024))
    maker = ours(parse_lineup("solution:1-5,solution:14"), release)
    assert (maker.scheduler(4, 100).release is None) == (release == RELEASES[0])
    cases = list(beside({"ours": maker, "theirs": MAKER}, 2, 8))
    assert [case.title for case in cases] == ["decode, 4 running", "decode, 1,024 running", "arrival", "admission"]
    assert all(len(side.values) == 2 and min(side.values) > 0 for case in cases for side in case.sides.values())
    assert {case.base for case in cases} == {"theirs"}


@pytest.mark.parametrize("release", RELEASES)
def test_vllms_own_scheduler_does_the_same_work(mini_vllm: Commands, release: str) -> None:
    missing = peer_process.why_missing(peer_process.VLLM, release)
    if missing and not os.environ.get("REQUIRE_VLLM"):
        pytest.skip(missing)
    peer = ("--peer", "vllm", "--peer-version", release)
    record = json.loads(mini_vllm("bench", "scheduler", *peer, "--quick", "--json").stdout)
    assert {case["base"] for case in record["cases"]} == {f"vLLM {release}"}


def test_the_command_that_makes_a_missing_peer_names_the_release() -> None:
    missing = peer_process.why_missing(peer_process.VLLM, "0.0.1")
    assert missing is not None
    assert "vLLM 0.0.1's scheduler is not installed here" in missing
    assert "upkeep.vllm_peer 0.0.1`" in missing
