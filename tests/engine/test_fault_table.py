"""The checks catch a single fault in any part, and no request that continues produces wrong text."""

import logging
from itertools import count
from typing import Any

import pytest

from mini_vllm.core.step_checks import InvariantError
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.periodic_checker import NUM_CHECKS_WITHOUT_PROGRESS, PeriodicChecker
from mini_vllm.sampling_params import SamplingParams
from solutions.phase3_preemption import preempt
from tests.engine.fault_kinds import KINDS, FaultKind
from tests.engine.fault_table import BAD, ENGINES, outcome_of
from tests.engine.workloads import make_engine, small_config


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_fault_never_leads_to_a_wrong_text_or_a_hang(kind: FaultKind) -> None:
    found = {(name, seed): outcome_of(kind, name, seed, check_invariants=True) for name in ENGINES for seed in range(6)}
    assert not {case: outcome for case, outcome in found.items() if outcome in BAD}


def test_a_wrong_row_hit_or_update_is_caught_even_without_the_checks() -> None:
    methods = ("start_step", "update_from_output", "find_longest_cache_hit", "should_sample")
    kinds = [one for one in KINDS if one.method in methods]
    found = {kind.name: outcome_of(kind, "phases 1-5", 3, check_invariants=False) for kind in kinds}
    assert set(found.values()) == {"caught"}, found


def serving_engine(**settings: Any) -> LLMEngine:
    """Return an engine configured as in a server: without `check_invariants`, and checked about once in a hundred
    steps."""
    engine = make_engine(small_config(check_invariants=False, **settings))
    ticks = count()
    engine.add_observer(PeriodicChecker(engine.scheduler, clock=lambda: next(ticks) / 100))
    for name in "AB":
        engine.add_request(name, [1, 2, 3], SamplingParams(max_tokens=10_000 if name == "A" else 30))
    engine.step()
    return engine


def raised_within(engine: LLMEngine, num_steps: int) -> InvariantError:
    for _ in range(num_steps):
        try:
            engine.step()
        except InvariantError as error:
            return error
    raise AssertionError(f"no fault was found within {num_steps} steps")


def test_a_request_that_gets_no_token_is_named_while_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = serving_engine(max_model_len=20_000, num_gpu_blocks=10_000)
    inner = engine.scheduler.chunks.num_new_tokens

    def none_for_b(request: Any, num_computed_tokens: int, token_budget: int) -> int:
        return 0 if request.request_id == "B" else inner(request, num_computed_tokens, token_budget)

    monkeypatch.setattr(engine.scheduler.chunks, "num_new_tokens", none_for_b)
    error = raised_within(engine, 100 * (NUM_CHECKS_WITHOUT_PROGRESS + 3))
    assert str(error).startswith("B runs and got no token in 6 seconds")
    assert engine.requests_in_failed_step() == ["B"]


def test_a_request_that_is_preempted_again_and_again_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = serving_engine(max_model_len=20_000, num_gpu_blocks=10_000)
    scheduler = engine.scheduler
    inner = scheduler.schedule

    def preempts_b() -> Any:
        scheduler_output = inner()
        if "B" in scheduler_output.num_scheduled_tokens:
            victim = scheduler.requests["B"]
            scheduler_output.token_budget += scheduler_output.num_scheduled_tokens.pop("B")
            scheduler.running.remove(victim)
            preempt(victim, scheduler.waiting, scheduler.kv)
        return scheduler_output

    monkeypatch.setattr(scheduler, "schedule", preempts_b)
    error = raised_within(engine, 100 * (NUM_CHECKS_WITHOUT_PROGRESS + 3))
    assert "`make_room` (phase 3) preempts it although blocks are free" in str(error)
    assert engine.requests_in_failed_step() == ["B"]


def test_a_forgotten_request_is_found_in_the_next_step() -> None:
    engine = serving_engine()
    engine.scheduler.running.pop()
    assert "in no queue: {'B'}" in str(raised_within(engine, 2))


def test_a_leak_is_logged_once_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    engine = serving_engine(max_model_len=2_000, num_gpu_blocks=10_000)
    kv: Any = engine.scheduler.kv
    kv.free = lambda request, num_computed_tokens: None
    with caplog.at_level(logging.ERROR):
        for _ in range(500):
            engine.step()
    assert [record.message for record in caplog.records] == [
        "8 of 9999 blocks have leaked: no request holds them, and `free` has not freed them"
    ]


def test_a_wrong_order_of_service_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    engine = serving_engine(max_model_len=20_000, num_gpu_blocks=10_000, max_num_seqs=2)
    for name in "CD":
        engine.add_request(name, [1, 2, 3], SamplingParams(max_tokens=1_000))
    first = engine.scheduler.waiting.peek_request()
    engine.scheduler.waiting.remove_request(first)
    engine.scheduler.waiting.add_request(first)
    with caplog.at_level(logging.ERROR):
        for _ in range(500):
            engine.step()
    assert [record.message for record in caplog.records] == ["C arrived before D but comes after it"]
