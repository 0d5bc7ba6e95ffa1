"""The stages: each phase improves the figure that it targets, and no phase changes an output."""

from itertools import pairwise

import pytest

from mini_vllm import SamplingParams, parse_lineup
from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.fake_model_runner import LETTERS, fake_continuation
from mini_vllm_labs.pictures.terminal.stage_sentences import mean_ms, p95_ms
from mini_vllm_labs.runs.workloads.ablation import (
    END,
    MAX_TOKENS,
    LineupResult,
    ablation_lineups,
    ablation_requests,
    run_lineup,
)
from mini_vllm_labs.runs.workloads.simulated_time import StepCost, VirtualClock

SEEDS = (0, 1)


@pytest.fixture(scope="module", params=SEEDS)
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def stages(seed: int) -> list[LineupResult]:
    visits = ablation_requests(seed)
    return [run_lineup(lineup, visits) for lineup in ablation_lineups(parse_lineup("solution"))]


def test_all_stages_give_the_outputs_of_the_fake_model_without_any_cache(stages: list[LineupResult], seed: int) -> None:
    truth = {}
    for visit in ablation_requests(seed):
        generated = fake_continuation(visit.prompt_token_ids, visit.num_output_tokens - 1, LETTERS)
        truth[visit.request_id] = [*generated, END]
    one, two, *others = stages
    assert all(stage.token_ids == truth for stage in (one, *others))
    assert all(truth[request_id][: len(generated)] == generated for request_id, generated in two.token_ids.items())


def test_outputs_end_well_before_max_tokens(seed: int) -> None:
    visits = ablation_requests(seed)
    assert max(visit.num_output_tokens for visit in visits) < MAX_TOKENS / 2
    assert all(before.arrival_time <= after.arrival_time for before, after in pairwise(visits))


def test_phase_2_runs_more_requests_at_once_and_holds_fewer_empty_slots(stages: list[LineupResult]) -> None:
    without, with_blocks, *_ = stages
    assert with_blocks.most_running >= 2 * without.most_running
    assert with_blocks.mean_empty < 0.1 < without.mean_empty


def test_phase_3_ends_the_stalls(stages: list[LineupResult]) -> None:
    _, without, with_preemption, *_ = stages
    assert without.num_stalled > 0
    assert without.num_preemptions == 0
    assert [stage.num_stalled for stage in stages if stage is not without] == [0] * 4
    assert with_preemption.num_preemptions > 0
    assert with_preemption.num_recomputed_tokens > 0


def test_phase_4_hits_the_cache_and_computes_less(stages: list[LineupResult]) -> None:
    *_, without, with_cache, _ = stages
    assert [stage.hit_rate > 0 for stage in stages] == [False, False, False, True, True]
    assert with_cache.num_computed_tokens < 0.8 * without.num_computed_tokens
    assert with_cache.num_recomputed_tokens < without.num_recomputed_tokens
    assert mean_ms(with_cache.first_token_latencies) < 0.5 * mean_ms(without.first_token_latencies)


def test_phase_5_keeps_long_prompts_from_delaying_decodes(stages: list[LineupResult]) -> None:
    *_, without, with_chunks = stages
    assert p95_ms(with_chunks.inter_token_latencies) < 0.7 * p95_ms(without.inter_token_latencies)


def test_the_electives_change_the_steps_and_no_output(stages: list[LineupResult], seed: int) -> None:
    *_, course = stages
    drafted, both, overlapped = (
        run_lineup(parse_lineup(f"solution:1-5,solution:{electives}"), ablation_requests(seed))
        for electives in ("7", "7-8", "8")
    )
    assert drafted.token_ids == both.token_ids == overlapped.token_ids == course.token_ids
    assert drafted.num_steps < 0.6 * course.num_steps
    assert drafted.num_computed_tokens > course.num_computed_tokens, "rejected drafts are computed, too"
    assert drafted.num_recomputed_tokens == overlapped.num_recomputed_tokens == course.num_recomputed_tokens
    assert mean_ms(drafted.inter_token_latencies) < 0.6 * mean_ms(course.inter_token_latencies)
    assert overlapped.num_computed_tokens == course.num_computed_tokens + len(ablation_requests(seed))
    assert run_lineup(both.lineup, ablation_requests(seed)) == both, "no thread decides about simulated time"


def test_tokens_are_counted_once_each(stages: list[LineupResult], seed: int) -> None:
    """Every token except the last of an output is computed, recomputed or found in the cache."""
    needed = sum(len(visit.prompt_token_ids) + visit.num_output_tokens - 1 for visit in ablation_requests(seed))
    for stage in stages[:1] + stages[2:3]:
        assert stage.num_computed_tokens - stage.num_recomputed_tokens == needed


def test_a_stage_without_one_phase_in_the_middle_is_left_out() -> None:
    assert [str(lineup) for lineup in ablation_lineups(parse_lineup("solution:1-2,starter:5"))] == [
        "solution:1",
        "solution:1-2",
        "solution:1-2,starter:5",
    ]
    assert str(ablation_lineups(parse_lineup("solution"), 6)[-1]) == "solution"
    with_electives = [str(lineup) for lineup in ablation_lineups(parse_lineup("solution:1-8"))]
    assert with_electives[-2:] == ["solution:1-5,solution:7", "solution:1-5,solution:7-8"]


def test_a_step_costs_a_fixed_part_and_its_tokens_and_their_context() -> None:
    request = Request("r", list(range(10)), SamplingParams())
    batch = [ScheduledRequest(request, 6, 4, [1, 2, 3], True), ScheduledRequest(request, 0, 3, [4], False)]
    cost = StepCost(per_step=1.0, per_token=0.1, per_context_token=0.01)
    assert cost.seconds(batch) == pytest.approx(1.0 + 0.1 * 7 + 0.01 * 13)


def test_the_clock_never_goes_back() -> None:
    clock = VirtualClock()
    clock.advance(2.0)
    clock.advance_to(1.0)
    assert clock() == 2.0
    clock.advance_to(3.0)
    assert clock() == 3.0


@pytest.mark.parametrize(
    ("seconds", "expected"), [([], 0.0), ([0.001], 1.0), ([n / 1000 for n in range(1, 101)], 95.0)]
)
def test_p95_is_what_95_of_100_do_not_exceed(seconds: list[float], expected: float) -> None:
    assert p95_ms(seconds) == pytest.approx(expected)
