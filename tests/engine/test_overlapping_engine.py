"""The asynchronous engine generates the same tokens in different steps; tests features that only phases 7 and 8
have."""

import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from mini_vllm import SamplingParams, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm.core.absent import WholePrompts
from mini_vllm.core.invariants import check_drained
from mini_vllm.core.request import Request
from mini_vllm.core.request_queue import FCFSRequestQueue
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.electives.tokens_ahead import ChunksAhead, TokensAhead
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.overlapping_engine import OverlappingEngine
from mini_vllm.runner.drafts.draft_model import DraftModel
from mini_vllm.runner.drafts.drafting_runner import DraftingRunner
from solutions.phase1_scheduler_step import clamp, update_from_output
from solutions.phase2_block_pool import PagedKVCacheManager
from solutions.phase4_prefix_cache import HashPrefixCache
from solutions.phase7_speculative_decoding import SpeculativeScheduling
from solutions.phase8_async_scheduling import PlaceholderScheduling
from tests.engine.workloads import (
    draft_half_right,
    drain,
    expect,
    make_engine,
    make_workload,
    run_workload,
    small_config,
    true_tokens,
)

PROMPT = [5, 6, 7, 8, 9]
DRAFTS = {
    "none": None,
    "lookup": SpeculativeConfig(num_speculative_tokens=3),
    "model": SpeculativeConfig("draft_model", num_speculative_tokens=4, adaptive=False),
}


@pytest.fixture
def restless() -> Iterator[None]:
    """Make the two threads switch as often as Python can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def async_engine(
    config: EngineConfig, phases: str = "1-5", drafts: str = "none", *, is_async: bool = True, record: bool = False
) -> LLMEngine:
    config = replace(config, async_scheduling=is_async, speculative_config=DRAFTS[drafts])
    engine = make_engine(config, f"solution:{phases},solution:7-8", record=record)
    draft_half_right(engine)
    return engine


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("drafts", DRAFTS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_num_batched_tokens": 7, "long_prefill_token_threshold": 3},
        {"policy": "priority", "num_gpu_blocks": 12},
        {"enable_prefix_caching": False, "block_size": 1},
    ],
    ids=str,
)
def test_a_step_in_flight_never_changes_the_tokens(settings: dict[str, Any], drafts: str) -> None:
    num_preemptions = 0
    for seed in range(30):
        workload = make_workload(seed)
        engine = async_engine(small_config(max_num_seqs=4, **settings), drafts=drafts)
        run = run_workload(engine, workload)
        assert run.token_ids == true_tokens(workload), f"seed {seed}"
        check_drained(engine.scheduler)
        num_preemptions += run.num_preemptions
    assert num_preemptions > 10 or "num_gpu_blocks" not in settings


def test_the_first_step_starts_and_the_second_one_applies_it() -> None:
    engine = async_engine(small_config(), record=True)
    engine.add_request("A", PROMPT, SamplingParams(max_tokens=3))
    outputs = [engine.step() for _ in range(4)]
    assert [len(one) for one in outputs] == [0, 1, 1, 1]
    assert not engine.has_unfinished_requests()
    steps = engine.recorder.steps
    assert [step["update_of"] for step in steps] == [None, 0, 1, 2]
    # Whichever token step 2 samples is the third, so step 3 has nothing to plan.
    assert [step["total"] for step in steps] == [5, 1, 1, 0]
    assert [len(step["sampled"].get("A", [])) for step in steps] == [1, 1, 1, 0]


def test_the_name_of_a_request_in_flight_can_be_used_again() -> None:
    engine = async_engine(small_config())
    engine.add_request("A", PROMPT, SamplingParams(max_tokens=9))
    engine.step()
    engine.step()
    engine.abort_request("A")
    other = SamplingParams(max_tokens=6)
    engine.add_request("A", [1, 2, 3], other)
    assert drain(engine)["A"].outputs[0].token_ids == expect((1, 2, 3), other, 40).token_ids


def test_the_thread_ends_with_the_engine() -> None:
    before = set(threading.enumerate())
    engine = async_engine(small_config())
    engine.add_request("A", PROMPT, SamplingParams(max_tokens=3))
    engine.step()
    (thread,) = set(threading.enumerate()) - before
    gone = weakref.ref(engine)
    del engine
    gc.collect()
    assert gone() is None
    thread.join(timeout=10)
    assert not thread.is_alive()


def test_without_the_setting_there_is_no_thread() -> None:
    engine = build_engine(EngineConfig(), parse_lineup("solution:1-5,solution:8"))
    assert not isinstance(engine, OverlappingEngine)


@pytest.mark.parametrize("phases", ["1", "1-5"])
def test_right_drafts_of_a_model_are_all_accepted(phases: str) -> None:
    """The draft model is the target, so it can guess wrong only if it has failed to compute a token."""
    for seed in range(20):
        config = small_config(num_gpu_blocks=60, speculative_config=DRAFTS["model"])
        engine = make_engine(config, f"solution:{phases},solution:7")
        assert isinstance(engine.runner, DraftingRunner)
        assert isinstance(engine.runner.proposer, DraftModel)
        assert engine.runner.proposer.block_size == engine.scheduler.kv.block_size
        run_workload(engine, make_workload(seed))
        assert engine.draft_statistics is not None
        assert 0 < engine.draft_statistics.num_accepted_tokens == engine.draft_statistics.num_draft_tokens


def test_blocks_that_late_tokens_fill_can_be_hit_before_their_request_is_scheduled_again() -> None:
    cache = HashPrefixCache(4)
    ahead = TokensAhead(
        SpeculativeScheduling(3, drafter_has_kv_cache=False),
        PlaceholderScheduling(3),
        64,
        chunks=WholePrompts(clamp),
        kv=PagedKVCacheManager(9, 4, cache),
        prefix_cache=cache,
    )
    kv = ahead.kv
    request, plan = Request("A", [1, 2, 3]), SchedulerOutput(16, {"A": 6})
    request.admit(0)
    table = kv.allocate_slots(request, 6)
    request.spec_token_ids = [-1, -1, -1]
    request.advance(6)
    ahead.after_schedule(plan, {"A": request})
    assert (plan.scheduled_spec_decode_tokens, request.num_output_placeholders) == ({"A": [-1, -1, -1]}, 4)
    assert kv.get_computed_blocks(Request("B", [1, 2, 3, 4, 5, 6])) == []
    requests, apply = {"A": request}, partial(update_from_output, running=[request], max_model_len=64, kv=kv)
    ahead.update(
        plan, {"A": [4, 5, 6]}, requests, FCFSRequestQueue(), lambda part, sampled: apply(part, sampled, requests)
    )
    assert (request.num_computed_tokens, request.num_output_placeholders) == (5, 0)
    assert table is not None
    assert kv.get_computed_blocks(Request("B", [1, 2, 3, 4, 5, 6])) == table[:1]


@pytest.mark.parametrize(("max_model_len", "granted"), [(64, 5), (6, 3), (4, 1)])
def test_phase_5_is_asked_with_the_requests_own_counter(max_model_len: int, granted: int) -> None:
    request = Request("A", [1, 2, 3])
    request.admit(2)
    request.spec_token_ids = [4, 5, 6, 7]
    asked: list[tuple[int, int]] = []

    class Policy(WholePrompts):
        def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
            asked.append((request.num_tokens, num_computed_tokens))
            return super().num_new_tokens(request, num_computed_tokens, token_budget)

    chunks = ChunksAhead(Policy(clamp), max_model_len, None)
    assert chunks.num_new_tokens(request, 2, 16) == granted
    assert asked == [(2 + granted, 2)]
    assert chunks.num_new_tokens(request, 2, 1) == 1, "some of the drafts are better than no token"
    assert (request.num_tokens, request.spec_token_ids) == (3, [4, 5, 6, 7])


def test_a_victim_loses_its_drafts() -> None:
    request = Request("A", [1, 2, 3])
    request.admit(0)
    request.spec_token_ids = [4, 5]
    request.preempt()
    assert request.spec_token_ids == []
