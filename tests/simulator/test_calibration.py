"""A fit recovers the cost model that generated the steps, and a measurement matches the simulation."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from mini_vllm import EngineConfig, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm_labs.runs.workloads.simulated_time import TimedRunner, VirtualClock
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation import agreement
from mini_vllm_labs.simulation.agreement import CHECKED_ON, FigureComparison, calibrate_and_compare, one_round
from mini_vllm_labs.simulation.calibration import (
    Calibration,
    MeasuredStep,
    fit,
    read_calibration,
    typical_error,
    write_calibration,
)
from mini_vllm_labs.simulation.cost_model import CostModel, StepCounts, model_counts, pairs
from mini_vllm_labs.simulation.measured_engine import MeasuredEngine, measure, prompt_in_vocabulary
from mini_vllm_labs.simulation.model_shapes import find_model_shape
from mini_vllm_labs.simulation.served import Served
from mini_vllm_labs.simulation.simulation import simulate
from mini_vllm_labs.simulation.workloads import make_requests, prompt_of, scaled

LINEUP, EMBEDDED = parse_lineup("solution:1-5"), find_model_shape("embedded")


def machine(*, overlaps: bool) -> CostModel:
    rates = {"bandwidth": 8e9, "flop_rate": 4e10, "seconds_per_step": 5e-4, "seconds_per_request": 2e-5}
    return CostModel(**model_counts(EMBEDDED, 4), **rates, overlaps=overlaps)


def random_steps(cost: CostModel, noise: float, seed: int = 0) -> list[MeasuredStep]:
    rng, steps = random.Random(seed), []
    for _ in range(400):
        num_decodes, context, chunk = rng.randrange(1, 32), rng.randrange(20, 2_000), rng.choice([0, 0, 0, 100, 256])
        decodes = num_decodes * context
        counts = StepCounts(
            num_decodes + (chunk > 0),
            num_decodes + chunk,
            decodes + chunk,
            decodes + pairs(0, chunk),
            num_decodes + (chunk > 0),
        )
        outlier = 5.0 if rng.random() < 0.05 and noise else 1.0
        steps.append(MeasuredStep(counts, cost.step_seconds(*counts) * rng.uniform(1 - noise, 1 + noise) * outlier))
    return steps


def test_a_fit_finds_the_machine_of_the_steps() -> None:
    """Reordering the steps changes the last digits of every sum, as a different CPU would."""
    cost = machine(overlaps=False)
    steps = random_steps(cost, noise=0.0)
    for order in (steps, steps[::-1], sorted(steps)):
        fitted = fit(order, EMBEDDED, 4)
        for name in ("bandwidth", "flop_rate", "seconds_per_step", "seconds_per_request"):
            assert getattr(fitted, name) == pytest.approx(getattr(cost, name)), name


SLOW_PARTS = replace(
    machine(overlaps=False),
    kv_bytes_per_token=5 * machine(overlaps=False).kv_bytes_per_token,
    flops_per_pair=3 * machine(overlaps=False).flops_per_pair,
)
"""K and V that are copied, and attention at a lower rate than the other products."""


def test_a_fit_finds_no_overhead_below_zero() -> None:
    """Overhead is the remainder of a subtraction, which rounds below 0 for some of these steps."""
    fits = [fit(random_steps(SLOW_PARTS, 0.1, seed)[:60], EMBEDDED, 4) for seed in range(60)]
    assert min(fitted.seconds_per_step for fitted in fits) >= 0.0


@pytest.mark.parametrize(
    ("cost", "noise", "error"),
    [(machine(overlaps=True), 0.0, 0.06), (machine(overlaps=False), 0.1, 0.03), (SLOW_PARTS, 0.0, 1e-6)],
    ids=["reads while it computes", "noise and a few outliers", "parts slower than their bytes and operations"],
)
def test_a_fit_predicts_other_steps_of_the_machine(cost: CostModel, noise: float, error: float) -> None:
    fitted = fit(random_steps(cost, noise), EMBEDDED, 4)
    assert typical_error(fitted, random_steps(cost, noise=0.0, seed=1)) < error


def test_no_fitted_parameter_is_negative() -> None:
    steps = [MeasuredStep(StepCounts(1, n, n, pairs(0, n), 1), 1.0 / n) for n in range(1, 50)]
    fitted = fit(steps, EMBEDDED, 4)
    assert min(fitted.seconds_per_step, fitted.seconds_per_request, fitted.bandwidth, fitted.flop_rate) >= 0


def test_too_few_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="needs at least 20 steps, got 3"):
        fit(random_steps(machine(overlaps=True), 0.0)[:3], EMBEDDED, 4)


def test_a_calibration_is_read_back_from_its_file_unchanged(tmp_path: Path) -> None:
    calibration = Calibration("embedded", "float32", 2048, 100, 400, 0.02, machine(overlaps=False))
    path = str(tmp_path / "calibration.json")
    write_calibration(path, calibration)
    assert read_calibration(path) == calibration


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cost": {"bandwidth": 1}}', '{"cost": 3}'])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.json").write_text(text)
    for name in ("other.json", "missing.json"):
        with pytest.raises(ValueError, match="is not a calibration from `mini-vllm calibrate`"):
            read_calibration(str(tmp_path / name))


def engine_on(clock: VirtualClock, cost: CostModel, config: EngineConfig) -> LLMEngine:
    engine = build_engine(config, LINEUP)
    engine.runner = TimedRunner(engine.runner, clock, cost)
    return engine


@pytest.mark.parametrize("workload", ["burst", "documents", "shared-prefix"])
def test_measuring_a_machine_that_is_the_model_equals_the_simulation(workload: str) -> None:
    """Measurement and simulation agree even with shared prefixes, hits and preemptions: only the stopwatch differs from
    a real measurement."""
    config = EngineConfig(max_num_seqs=8, max_num_batched_tokens=64, max_model_len=2048, num_gpu_blocks=80)
    cost, clock = machine(overlaps=True), VirtualClock()
    requests = scaled(make_requests(workload, 40, rate=400.0), 0.1)
    measured, steps = measure(requests, engine_on(clock, cost, config), "m", stopwatch=clock)
    predicted = simulate(requests, config, cost, LINEUP)
    assert measured.first_token_times == pytest.approx(predicted.first_token_times)
    assert measured.finished_times == pytest.approx(predicted.finished_times)
    assert (len(steps), measured.num_preemptions) == (predicted.num_steps, predicted.num_preemptions)
    assert measured.num_computed_tokens == predicted.num_computed_tokens
    assert sum(count for _, count in measured.gaps) == sum(count for _, count in predicted.gaps)
    assert measured.peak_context_tokens == predicted.peak_context_tokens
    if workload == "shared-prefix":
        assert predicted.hit_rate > 0.1
    if workload == "documents":
        assert predicted.num_preemptions > 0


CONFIG = EngineConfig(max_num_seqs=16, max_num_batched_tokens=128, max_model_len=1024, num_gpu_blocks=1_000)


def rig_on(clock: VirtualClock, cost: CostModel, num_requests: int = 30) -> MeasuredEngine:
    return MeasuredEngine(engine_on(clock, cost, CONFIG), EMBEDDED, num_requests, stopwatch=clock)


def silent(text: str) -> None:
    pass


def test_a_rig_on_such_a_machine_predicts_every_figure() -> None:
    rig = rig_on(VirtualClock(), machine(overlaps=False))
    assert rig.calibrate(silent).typical_error < 0.01
    fitted, compared = calibrate_and_compare(rig, LINEUP, silent, num_rounds=1)
    assert fitted.typical_error < 0.01
    assert len(compared) == 9
    assert [row for row in compared if not 0.97 < row.ratio < 1.03] == []


def test_the_steps_to_fit_are_measured_before_and_after_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the computer slows down during the checks, the fitted model becomes slower too."""
    rig = rig_on(VirtualClock(), machine(overlaps=False))
    measure_one, num_steps = rig.measure, list[int]()

    def measuring(requests: list[TimedRequest]) -> tuple[Served, list[MeasuredStep]]:
        served, steps = measure_one(requests)
        num_steps.append(len(steps))
        return served, steps

    monkeypatch.setattr(rig, "measure", measuring)
    fitted, _ = one_round(rig, LINEUP, silent, 100.0, dict.fromkeys(CHECKED_ON, 50.0), text=1)
    before, checks, after = num_steps[:3], num_steps[3:9], num_steps[9:]
    assert (len(before), len(checks), len(after)) == (3, 6, 3)
    assert fitted.num_steps == sum(before) + sum(after)


def test_the_steps_to_fit_have_few_requests_and_many() -> None:
    counts = [step.counts for step in rig_on(VirtualClock(), machine(overlaps=False)).steps_to_fit(100.0, silent)]
    assert {1, 2, CONFIG.max_num_seqs} <= {count.num_requests for count in counts}
    assert CONFIG.max_num_batched_tokens in {count.num_tokens for count in counts}


def test_no_two_measurements_of_a_check_share_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_on(VirtualClock(), machine(overlaps=False), num_requests=20)
    measure_all = rig.measure
    conversations: list[set[int]] = []
    prefixes: list[set[int]] = []

    def noting(requests: list[TimedRequest]) -> object:
        prompts = [prompt_of(request) for request in requests]
        conversations.append({prompt.conversation for prompt in prompts})
        prefixes.append({prompt.shared_prefix for prompt in prompts if prompt.num_shared_tokens})
        return measure_all(requests)

    monkeypatch.setattr(rig, "measure", noting)
    calibrate_and_compare(rig, LINEUP, silent, num_rounds=2)
    assert len(conversations) == 2 + 3 + 2 * (3 + 6 + 3)
    for found in (conversations, prefixes):
        assert len(set[int]().union(*found)) == sum(map(len, found))


def test_the_median_round_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[FigureComparison("burst", "tokens/s", 1.0, ratio)] for ratio in (1.4, 0.7, 0.95)]
    fits = [Calibration("m", "float32", 1, 1, 20, error, machine(overlaps=True)) for error in (0.3, 0.1, 0.2)]
    monkeypatch.setattr(agreement, "one_round", lambda *given, text: (fits[text // 2], rows[text // 2]))
    fitted, compared = calibrate_and_compare(
        rig_on(VirtualClock(), machine(overlaps=True)), LINEUP, silent, num_rounds=3
    )
    assert fitted.typical_error == 0.1
    assert [(row.ratio, row.ratios) for row in compared] == [(0.95, [0.7, 0.95, 1.4])]


def test_prompts_in_a_vocabulary_agree_as_far_as_the_text_is_shared() -> None:
    one, two = make_requests("shared-prefix", 200, 1.0, seed=1)[:2]
    first, second = prompt_in_vocabulary(one, 50), prompt_in_vocabulary(two, 50)
    assert len(first) == one.num_prompt_tokens
    assert (first[:2048] == second[:2048]) == (prompt_of(one).shared_prefix == prompt_of(two).shared_prefix)
    assert first == prompt_in_vocabulary(one, 50)
    assert max(first) < 50
