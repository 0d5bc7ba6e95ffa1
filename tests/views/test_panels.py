"""Calculator, chunking dial and policy comparison show the simulator's figures, and follow their knobs."""

import re
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from course.simulator import roofline
from course.simulator.gpus import GPUS, Gpu, find_gpu
from course.simulator.model_shapes import MODEL_SHAPES, ModelShape, find_model_shape
from course.simulator.policies import POLICIES, under_policy
from course.simulator.served import Slo
from course.simulator.simulation import simulate
from course.simulator.what_if import what_if
from course.simulator.workloads import make_requests
from course.views.calculator import Setup, calculator, calculator_picture, capacity_of
from course.views.calculator.figures import memory_parts, table
from course.views.chunking_dial import Deployment, Setting, chunking_dial, chunking_picture, try_setting
from course.views.chunking_dial.trial import arrivals
from course.views.figures import digits, memory, seconds
from course.views.policy_comparison import (
    PolicyComparison,
    PolicyResult,
    compare_policies,
    policy_panel,
    policy_picture,
)
from course.views.policy_comparison.comparison import groups
from course.views.policy_comparison.drawing import compare_with_this_lineup
from course.views.policy_comparison.figures import group_rows, rows
from mini_vllm import parse_lineup
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.engine.errors import StalledError
from tests.views.drawing import count, texts, tree

H100, LLAMA_8B = find_gpu("H100"), find_model_shape("Llama-3.1-8B")
SMALL, WIDE, NARROW = Deployment(num_requests=300), Setting(), Setting(max_num_batched_tokens=512)
LINEUP, COMPARISON, SLO = parse_lineup("solution:1-5"), PolicyComparison(num_requests=120), Slo()


def test_llama_8b_on_an_h100() -> None:
    """The figures of a setup that can be done by hand: 72 GiB, less 15 for weights and 2 for the workspace."""
    capacity = capacity_of(Setup())
    assert capacity.kv_bytes_per_token == 128 * 2**10
    assert capacity.kv_bytes_per_block == 2 * 2**20
    assert capacity.num_blocks == roofline.num_kv_blocks(H100, LLAMA_8B) == 28_181
    assert (capacity.concurrency, capacity.batch_size) == (28_180 // 512, 55)
    assert capacity.saturation_batch == roofline.saturation_batch(H100)
    assert capacity.decode.tokens_per_second == roofline.decode_tokens_per_second(H100, LLAMA_8B, 55, 8192)
    assert capacity.prefill.tokens_per_second == roofline.prefill_tokens_per_second(H100, LLAMA_8B, 8192)


def test_every_figure_of_the_calculator_is_in_picture_and_text_alternative() -> None:
    capacity = capacity_of(Setup("Llama-3.1-70B", num_gpus=4, bytes_per_number=1))
    picture = calculator_picture(capacity)
    words = texts(tree(picture))
    for name, value in table(capacity):
        assert {name, value} <= set(words)
        assert f"{name}: {value}\n" in picture.text_alternative
    for name, size in memory_parts(capacity):
        assert f"{name} {memory(size)}" in words
        assert f"{name} {memory(size)}" in picture.text_alternative


@pytest.mark.parametrize("shape", MODEL_SHAPES, ids=lambda shape: shape.name)
@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_points_lie_on_the_roof_and_the_bar_holds_the_memory(shape: ModelShape, gpu: Gpu) -> None:
    capacity = capacity_of(Setup(shape.name, gpu.name, context_len=2048))
    for work in (capacity.decode, capacity.prefill):
        assert work.flop_rate == pytest.approx(min(capacity.peak_flops, work.intensity * capacity.bandwidth))
    assert sum(size for _, size in memory_parts(capacity)) == capacity.memory_bytes or capacity.problem
    assert bool(capacity.problem) == (capacity.num_blocks == 0)
    assert calculator_picture(capacity).height < 700


def test_a_request_is_a_notch() -> None:
    capacity = capacity_of(Setup(context_len=32_768))
    bar = next(layer.content for layer in calculator_picture(capacity).layers if layer.name == "memory")
    assert bar.split('class="notches"')[0].rsplit('d="', 1)[1].count("M") == capacity.concurrency == 13
    assert "notches" not in calculator_picture(capacity_of(Setup(context_len=512))).svg()


def test_half_the_bytes_hold_twice_the_tokens_and_saturate_at_half_the_batch() -> None:
    two, one = capacity_of(Setup()), capacity_of(Setup(bytes_per_number=1))
    assert one.kv_bytes_per_token * 2 == two.kv_bytes_per_token
    assert one.saturation_batch * 2 == two.saturation_batch
    assert one.num_blocks > 2 * two.num_blocks
    lone = [capacity_of(replace(Setup(max_num_seqs=1), bytes_per_number=size)).decode for size in (1, 2)]
    assert lone[0].tokens_per_second == pytest.approx(2 * lone[1].tokens_per_second)


def test_the_calculator_answers_and_explains() -> None:
    panel = calculator()
    panel.set(model="Qwen2.5-7B", gpu="L4")
    assert panel.answer["text_alternative"].startswith("Qwen2.5-7B with 16-bit numbers on L4")
    panel.set(context_len=65_536)
    assert panel.answer["error"].startswith("context_len is 65,536, but Qwen2.5-7B takes 1 to 32,768")


def test_the_dial_shows_the_simulators_figures_and_the_previous_ones() -> None:
    rate, requests = arrivals(SMALL, "mixed", 90)
    served = what_if(requests, *SMALL.engine_and_cost(NARROW))
    picture = chunking_picture(try_setting(NARROW, SMALL), try_setting(WIDE, SMALL))
    words = texts(tree(picture))
    first, between = served.time_to_first_token([50, 95, 99]), served.inter_token_latency([50, 95, 99])
    for name, times in (("time to first token", first), ("inter-token latency", between)):
        for percent, time in zip((50, 95, 99), times, strict=True):
            assert any(word.startswith(seconds(time)) for word in words)
            assert f"{name} p{percent}: {seconds(time)}" in picture.text_alternative
    assert f"{digits(rate)} per second" in picture.text_alternative
    was = try_setting(WIDE, SMALL).inter_token_latencies[99]
    assert between[2] < was, "a smaller budget makes for shorter steps"
    assert f"{seconds(between[2])}, was {seconds(was)}" in words
    assert count(picture, "mv-ghost") == 3 > count(chunking_picture(try_setting(NARROW, SMALL)), "mv-ghost") == 0


def test_the_dial_remembers_the_previous_answer() -> None:
    panel = chunking_dial(num_requests=200)
    assert "before:" not in panel.answer["text_alternative"]
    panel.set(max_num_batched_tokens=512)
    assert "before: max_num_batched_tokens 2,048" in panel.answer["text_alternative"]
    panel.set(max_num_batched_tokens=2048, load=120)
    assert "before: load 90 %, max_num_batched_tokens 512" in panel.answer["text_alternative"]
    panel.set(max_num_batched_tokens=1000.5)
    assert "max_num_batched_tokens" in panel.answer["error"]
    panel.set(max_num_batched_tokens=2048, load=90)
    assert "before:" not in panel.answer["text_alternative"], "a refused setting has no latencies"


def test_the_requests_do_not_depend_on_the_engines_settings() -> None:
    assert try_setting(WIDE, SMALL).rate == try_setting(replace(NARROW, max_num_seqs=8), SMALL).rate
    assert try_setting(replace(WIDE, load=45), SMALL).rate == pytest.approx(try_setting(WIDE, SMALL).rate / 2)


def test_curves_rise() -> None:
    layers = chunking_picture(try_setting(WIDE, SMALL)).layers
    chart = next(layer.content for layer in layers if layer.name == "inter-token latency")
    data = re.findall(r'd="(M[^"]+)" fill="none" stroke="#', chart)
    points = [tuple(map(float, pair.split())) for pair in data[0][1:].split("L")]
    assert len(points) > 50
    assert all(one[0] <= other[0] and one[1] > other[1] for one, other in pairwise(points))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"gpu": "Z80"}, "gpu must be one of"),
        ({"gpu": "L4", "model": "Llama-3.1-70B"}, "does not fit"),
        ({"model": "embedded"}, "embedded, which takes up to 2,048 tokens, but"),
    ],
)
def test_unknown_machines_are_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        chunking_dial(**options)  # type: ignore[arg-type]


@cache
def compared() -> tuple[PolicyResult, ...]:
    return tuple(compare_policies(COMPARISON, LINEUP))


def test_every_policy_serves_the_requests_as_the_simulator_does() -> None:
    requests = make_requests("shared-prefix", 120, COMPARISON.rate)
    config, cost = COMPARISON.experiment.resolved_engine(), COMPARISON.experiment.cost
    assert config.num_gpu_blocks == 800
    assert [result.policy for result in compared()] == list(POLICIES)
    for result in compared():
        served = simulate(*under_policy(result.policy, requests, config), cost, LINEUP)
        assert result.served == served
        assert result.time_to_first_token(95) == served.time_to_first_token([95])[0]


def test_every_figure_of_the_policies_is_in_picture_and_text_alternative() -> None:
    results = list(compared())
    picture = policy_picture(COMPARISON, results, SLO)
    words = texts(tree(picture))
    for row in [*rows(results, SLO), *group_rows(results)]:
        assert {row.name, *row.texts} <= set(words)
        fcfs, priority, shortest = row.texts
        assert f"{row.name}: FCFS {fcfs}, PRIORITY {priority}, shortest-first {shortest}" in picture.text_alternative
    assert all(digits(result.served.goodput(SLO)) in picture.sentence for result in results)
    assert "longest quarter with shortest-first" in picture.sentence, "starved, in a real crowd"
    dots = next(layer.content for layer in picture.layers if layer.name == "requests").count("h0")
    urgent = groups(results)["urgent requests"]
    assert dots == 3 * (120 + 2 * len(urgent)), "one a request, and two more for the outline of the urgent"


def test_the_policies_run_again_if_a_knob_needs_it_and_with_few_requests_while_it_moves() -> None:
    asked: list[tuple[int, int]] = []

    def compare(comparison: PolicyComparison) -> list[PolicyResult]:
        asked.append((comparison.load, comparison.num_requests))
        return list(compared())

    panel = policy_panel(compare)

    def ask(*, whole: bool, **turned: float) -> dict[str, Any]:
        values = panel.values | turned
        panel.question = panel.question | {"ticket": len(asked), "values": values, "whole": whole}
        answer: dict[str, Any] = panel.answer
        return answer

    first = ask(load=200, whole=False)
    assert (first["has_more"], "16 requests" in first["text_alternative"]) == (True, True)
    assert "16 requests" not in panel.picture().text_alternative, "an exported page has all requests"
    rested = ask(load=200, whole=True)
    assert ("has_more" in rested, "300 requests" in rested["text_alternative"]) == (False, True)
    again = ask(time_to_first_token=0.1, whole=False)
    assert ("has_more" in again, "SLO: first token within 100 ms" in again["text_alternative"]) == (False, True)
    assert asked == [(150, 300), (200, 16), (200, 300)], "an objective needs no new comparison"


def test_the_engine_is_that_of_lab_impl_and_a_stall_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_IMPL", "solution:1-5")
    results = compare_with_this_lineup(PolicyComparison(num_requests=20))
    assert {str(result.lineup) for result in results} == {str(LINEUP)}

    def stall(comparison: PolicyComparison, lineup: Lineup) -> list[PolicyResult]:
        raise StalledError("nothing can be scheduled any more")

    monkeypatch.setattr("course.views.policy_comparison.drawing.compare_policies", stall)
    with pytest.raises(ValueError, match="nothing can be scheduled any more"):
        policy_panel()
    with pytest.raises(ValueError, match="num_gpu_blocks must hold"):
        compare_policies(PolicyComparison("mixed", num_gpu_blocks=100, num_requests=50), LINEUP)
