"""Controls over the learner's engine: settings, the sentence below, and settings that are refused."""

import re
from dataclasses import replace

import pytest

from course.notebook import Lab, Notice, bench, engine_panel, measure
from course.notebook.panels import MOST_STEPS, engine_knobs, require_result
from course.views.widgets import Panel
from course.workloads.small_workload import SMALL_POOL, make_workload
from mini_vllm.sampling_params import SamplingParams

CONFIG = replace(SMALL_POOL, max_model_len=64)
WORKLOAD = make_workload(seed=0, num_requests=8)


@pytest.fixture(scope="module")
def panel() -> Panel:
    made = engine_panel(Lab(5, "solution"), WORKLOAD, CONFIG, step=6)
    assert isinstance(made, Panel)
    return made


def test_the_panel_begins_with_the_run_of_its_config(panel: Panel) -> None:
    assert "step 6 of 27" in panel.draw(**start()).text_alternative
    assert panel.draw(**start()).sentence.startswith("Steps 28 (first 28), preemptions 2 (first 2)")


def test_a_larger_pool_needs_no_preemption_and_gives_the_same_answers(panel: Panel) -> None:
    panel.set(**start() | {"num_gpu_blocks": 64, "step": MOST_STEPS})
    assert "preemptions 0 (first 2)" in panel.answer["sentence"]
    assert panel.answer["sentence"].endswith("The answers are the same, token for token.")
    assert "Finished, blocks freed: r7." in panel.picture().text_alternative


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"num_gpu_blocks": 40}, "Steps 27 .* preemptions 0 .* computed 190 "),
        ({"num_gpu_blocks": 12}, "Steps 50 .* preemptions 8 "),
        ({"enable_prefix_caching": False}, "preemptions 4 .* from the cache 0 .* computed 252 "),
        ({"max_num_seqs": 1}, "Steps 79 .* preemptions 0 "),
        ({"max_num_seqs": 8}, "Steps 28 .* preemptions 2 "),
        ({"max_num_batched_tokens": 4}, "Steps 55 .* preemptions 0 "),
        ({"policy": "priority"}, "Steps 31 .* preemptions 2 "),
        ({"enable_chunked_prefill": False, "max_num_batched_tokens": 64}, "Steps 27 .* computed 211 "),
    ],
)
def test_the_answers_of_the_tour(panel: Panel, changed: dict[str, object], expected: str) -> None:
    sentence = panel.draw(**start() | changed).sentence
    assert re.search(expected, sentence), sentence
    assert sentence.endswith("The answers are the same, token for token.")


def test_impossible_settings_are_refused_with_a_message(panel: Panel) -> None:
    panel.set(**start() | {"enable_chunked_prefill": False})
    assert "max_num_batched_tokens must be at least max_model_len (64)" in panel.answer["error"]
    panel.set(**start() | {"num_gpu_blocks": 8})
    assert "the whole cache has 7 blocks" in panel.answer["error"]


def start() -> dict[str, object]:
    """The initial values of the controls."""
    return {knob.name: knob.value for knob in engine_knobs(CONFIG, step=6)}


def test_without_an_engine_there_are_no_knobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course.notebook.lab.unwritten_tasks", lambda phase: [f"Phase {phase}, task 1: clamp"])
    lab = Lab(5, "starter")
    assert isinstance(engine_panel(lab, WORKLOAD, CONFIG), Notice)
    assert isinstance(bench(lab), Notice)


def test_a_notice_becomes_an_error_in_a_panel() -> None:
    assert require_result(3) == 3
    with pytest.raises(ValueError, match="missing\nphase 4"):
        require_result(Notice("missing", "phase 4"))


def test_measured_runs_give_the_same_text_in_fewer_steps() -> None:
    configs = [replace(SMALL_POOL, max_num_seqs=n, max_model_len=128, num_gpu_blocks=120) for n in (1, 2)]
    params = SamplingParams(max_tokens=3, ignore_eos=True)
    one, two = require_result(Lab(6, "solution").run(measure, ["Hello.", "Who are you?"], configs, params, phases=6))
    assert one.texts == two.texts
    assert one.num_output_tokens == two.num_output_tokens == 6
    assert one.num_steps > two.num_steps
    assert one.tokens_per_second == one.num_output_tokens / one.seconds
