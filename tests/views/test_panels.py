"""The calculator, chunking dial and policy comparison show the simulator's figures and follow their knobs; also tests
their scales."""

from dataclasses import replace
from functools import cache

import pytest

from mini_vllm import Lineup, parse_lineup
from mini_vllm.engine.errors import StalledError
from mini_vllm_labs.pictures.bars import SHARE, bars
from mini_vllm_labs.pictures.calculator import Setup, capacity_of
from mini_vllm_labs.pictures.chart import LogScale, PercentScale, beside, cloud
from mini_vllm_labs.pictures.chunking_dial import Deployment, Setting, chunking_dial, chunking_picture, try_setting
from mini_vllm_labs.pictures.chunking_dial.trial import arrivals
from mini_vllm_labs.pictures.picture import Picture
from mini_vllm_labs.pictures.policy_comparison import PolicyComparison, PolicyResult, compare_policies, policy_panel
from mini_vllm_labs.pictures.policy_comparison.comparison import groups
from mini_vllm_labs.pictures.policy_comparison.drawing import compare_with_this_lineup
from mini_vllm_labs.pictures.quantities import digits, memory, round_seconds, seconds
from mini_vllm_labs.runs.workloads.urgency import with_urgent
from mini_vllm_labs.simulation.gpus import GPUS, Gpu, find_gpu
from mini_vllm_labs.simulation.model_shapes import MODEL_SHAPES, ModelShape, find_model_shape
from mini_vllm_labs.simulation.served import Slo
from mini_vllm_labs.simulation.simulation import simulate_under
from mini_vllm_labs.simulation.what_if import what_if
from mini_vllm_labs.simulation.workloads import make_requests
from tests.views.svg_reader import texts, tree

H100, LLAMA_8B = find_gpu("H100"), find_model_shape("Llama-3.1-8B")
SMALL, WIDE, NARROW = Deployment(num_requests=300), Setting(), Setting(max_num_batched_tokens=512)
LINEUP, COMPARISON, SLO = parse_lineup("solution:1-5"), PolicyComparison(), Slo()


@pytest.mark.parametrize("shape", MODEL_SHAPES, ids=lambda shape: shape.name)
@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_points_lie_on_the_roof(shape: ModelShape, gpu: Gpu) -> None:
    capacity = capacity_of(Setup(shape.name, gpu.name, context_len=2048))
    for work in (capacity.decode, capacity.prefill):
        assert work.flop_rate == pytest.approx(min(capacity.peak_flops, work.intensity * capacity.bandwidth))
    assert bool(capacity.problem) == (capacity.num_blocks == 0)


def test_the_dial_shows_the_simulators_figures() -> None:
    _, requests = arrivals(SMALL, "mixed", 90)
    served = what_if(requests, *SMALL.engine_and_cost(NARROW))
    text = chunking_picture(try_setting(NARROW, SMALL)).text_alternative
    for percent in (50, 95, 99):
        assert f"time to first token p{percent}: {seconds(served.time_to_first_token([percent])[0])}" in text
        assert f"inter-token latency p{percent}: {seconds(served.inter_token_latency([percent])[0])}" in text


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


def test_machines_that_cannot_serve_the_requests_are_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        chunking_dial("L4", "Llama-3.1-70B")
    with pytest.raises(ValueError, match="embedded, which accepts up to 2,048 tokens, but"):
        chunking_dial(model="embedded")


@cache
def compared() -> tuple[PolicyResult, ...]:
    return tuple(compare_policies(COMPARISON, LINEUP))


def test_every_policy_serves_the_requests_as_the_simulator_does() -> None:
    requests = with_urgent(make_requests("shared-prefix", 76, COMPARISON.rate))
    config, cost = COMPARISON.experiment.resolved_engine(), COMPARISON.experiment.cost
    assert config.num_gpu_blocks == 800
    assert [result.policy for result in compared()] == ["fcfs", "priority", "sjf-noisy"]
    for result in compared():
        served = simulate_under(result.policy, requests, config, cost, LINEUP)
        assert result.served == served
        assert result.time_to_first_token(95) == served.time_to_first_token([95])[0]


@pytest.mark.parametrize(("sigma", "wait"), [(0.3, "737 ms"), (2, "9.18 s")])
def test_bad_guesses_let_short_requests_wait(sigma: float, wait: str) -> None:
    [result] = compare_policies(PolicyComparison(prediction_sigma=sigma, policies=("sjf-noisy",)), LINEUP)
    assert seconds(result.time_to_first_token(95, groups([result])["shortest quarter"])) == wait


def test_the_policies_run_again_if_a_knob_needs_it() -> None:
    asked, saves = list[tuple[int, int]](), list[str]()

    def compare(comparison: PolicyComparison) -> list[PolicyResult]:
        asked.append((comparison.load, len(comparison.policies)))
        return [result for result in compared() if result.policy in comparison.policies]

    panel = policy_panel(compare, lambda: len(saves))

    def ask(**turned: float) -> str:
        panel.question = panel.question | {"ticket": len(asked), "values": panel.values | turned}
        assert "has_more" not in panel.answer, "a knob that moves gets all the figures"
        text: str = panel.answer["text_alternative"]
        return text

    first = ask(load=200)
    assert "76 requests" in first
    assert "SLO: first token within 100 ms" in ask(time_to_first_token=0.1)
    assert asked == [(150, 3), (200, 3)], "an objective needs no new comparison"
    assert ask(prediction_sigma=1).count("sjf-noisy ") == first.count("sjf-noisy ")
    saves.append("phase 1")
    for sigma in (2, 1):
        ask(prediction_sigma=sigma)
    assert asked[2:] == [(200, 1), (200, 3), (200, 1)], (
        "the error of the guesses serves one policy again, and other code serves all"
    )


def test_the_engine_is_that_of_lab_impl_and_a_stall_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_IMPL", "solution:1-5")
    results = compare_with_this_lineup(PolicyComparison(num_requests=20))
    assert {str(result.lineup) for result in results} == {str(LINEUP)}

    def stall(comparison: PolicyComparison, lineup: Lineup) -> list[PolicyResult]:
        raise StalledError("nothing more can be scheduled")

    monkeypatch.setattr("mini_vllm_labs.pictures.policy_comparison.drawing.compare_policies", stall)
    with pytest.raises(ValueError, match="nothing more can be scheduled"):
        policy_panel()
    with pytest.raises(ValueError, match="num_gpu_blocks must be large enough for a request"):
        compare_policies(PolicyComparison("mixed", num_gpu_blocks=100, num_requests=50), LINEUP)


@pytest.mark.parametrize("low", [3e-4, 0.0102, 1.0, 7.5, 2e5])
@pytest.mark.parametrize("factor", [1.0, 1.7, 40, 1e6])
def test_a_scale_holds_its_values_between_round_ends(low: float, factor: float) -> None:
    scale = LogScale.around([low, low * factor], 50, 300)
    assert scale.low <= low <= low * factor < scale.high
    assert {f"{end:.0e}"[0] for end in (scale.low, scale.high)} <= {"1", "2", "5"}
    assert 50 <= scale(low) <= scale(low * factor) <= 300
    assert len(scale.ticks()) >= 2
    assert all(50 - 1e-6 <= scale(tick) <= 300 + 1e-6 for tick in scale.ticks())


def test_a_decade_is_as_long_as_any_other_and_nothing_leaves_the_scale() -> None:
    scale = LogScale(1, 1000, 0, 300)
    assert [scale(value) for value in (1, 10, 100, 1000)] == pytest.approx([0, 100, 200, 300])
    assert (scale(0.001), scale(1e9)) == pytest.approx((0, 300))
    assert scale.ticks() == [1, 10, 100, 1000]
    assert LogScale(5, 50, 0, 1).ticks() == [5, 10, 20, 50]


def test_percentiles_are_spread_by_the_remaining_share() -> None:
    up = PercentScale(300, 0, most=99.9)
    assert [up(percent) for percent in (0, 90, 99, 99.9, 100)] == pytest.approx([300, 200, 100, 0, 0])


def test_a_label_is_clear_of_both_curves_and_near_its_point() -> None:
    assert 'x="17"' in beside((10, 50), 10, "12 ms", 0, 300)
    assert 'x="207"' in beside((200, 50), 100, "12 ms", 0, 300), "right of its own point, the other is on the left"
    left = beside((100, 50), 200, "12 ms", 0, 300)
    assert 'x="94"' in left
    assert "mv-end" in left, "left of its own point, the other is on the right"
    assert "mv-end" in beside((290, 50), 290, "12 ms", 0, 300), "there is no room on the right"
    assert cloud([], 2) == ""


def test_figures_have_three_digits_and_a_unit() -> None:
    assert [digits(value) for value in (0.1234, 9.996, 99.94, 99.96, 12_345.6, 13_195_049)] == [
        *("0.12", "10.0", "99.9", "100", "12,346", "13.2 M")
    ]
    assert [seconds(value) for value in (2.5e-6, 0.0123, 0.9996, 75.25)] == ["2.50 µs", "12.3 ms", "1.00 s", "75.2 s"]
    assert [memory(value) for value in (0, 1023, 128 * 2**10, 2**31)] == ["0 B", "1,023 B", "128 KiB", "2.00 GiB"]
    assert [round_seconds(value) for value in (0.0005, 0.02, 1, 2000)] == ["0.5 ms", "20 ms", "1 s", "2,000 s"]


def test_bars_far_apart_are_all_seen_on_a_log_axis_unless_it_is_a_share() -> None:
    values, texts_of = {"a": 0.0141, "b": 2.53, "c": 0.0}, {"a": "14.1 ms", "b": "2.53 s", "c": "0 s"}

    def lengths(picture: Picture) -> list[float]:
        return [float(bar.get("width", 0)) for bar in tree(picture).iterfind(".//{*}rect[@rx]")]

    far, share = bars("TTFT", values, texts_of), bars("TTFT", values, texts_of, others=SHARE)
    near = bars("TTFT", values | {"a": 0.085}, texts_of)
    assert lengths(far)[0] > 3 > lengths(share)[0] > lengths(share)[2] == lengths(far)[2] == 0
    assert texts(tree(far))[:4] == ["TTFT, log axis", "0.01", "0.1", "1"]
    assert texts(tree(near))[0] == texts(tree(share))[0] == "TTFT"
    assert far.text_alternative == share.text_alternative == near.text_alternative
