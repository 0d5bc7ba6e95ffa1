"""Controls over the learner's engine: settings, the tiles, the film, and settings that are rejected."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.notebook import Lab, Notice, bench, engine_panel, measure
from mini_vllm_labs.notebook.arena_panel import arena_bench
from mini_vllm_labs.notebook.panels import engine_knobs, require_result
from mini_vllm_labs.notebook.phase_code import PhaseCode
from mini_vllm_labs.pictures.panels import FilmPanel, Panel
from mini_vllm_labs.runs.starter_status import starter_stamps
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL, make_workload

CONFIG = replace(SMALL_POOL, max_model_len=64)
WORKLOAD = make_workload(seed=0, num_requests=8)


@pytest.fixture(scope="module")
def panel() -> FilmPanel:
    return require_result(engine_panel(Lab(5, "solution"), WORKLOAD, CONFIG, step=6))


def figures(panel: FilmPanel) -> dict[str, str]:
    """Return the tiles that the panel shows, keyed by name, each as `first -> now`."""
    return {name: f"{was} -> {now}" for name, was, now in panel.answer["comparison"]}


def test_the_panel_begins_with_the_run_of_its_config(panel: FilmPanel) -> None:
    panel.set(**start())
    assert "step 6 of 27" in panel.picture().text_alternative
    assert figures(panel)["steps"] == "28 -> 28"
    assert "steps 28 (first 28), preemptions 2 (first 2)" in panel.picture().text_alternative


def test_a_larger_pool_needs_no_preemption_and_gives_the_same_answers(panel: FilmPanel) -> None:
    panel.set(**start() | {"num_gpu_blocks": 64})
    assert figures(panel)["preemptions"] == "2 -> 0"
    run = require_result(Lab(5, "solution").play(WORKLOAD, CONFIG))
    spared = next(record["step"] for record in run.recording.steps if record["preempted"])
    told = f"The answers are the same, token for token. Step {spared} is the first with another plan."
    assert panel.answer["sentence"] == told
    panel.set(**start())
    assert panel.answer["sentence"] == "The answers are the same, token for token."


def test_one_step_is_drawn_while_a_knob_moves_and_the_film_when_it_rests(panel: FilmPanel) -> None:
    panel.set(**start())
    panel.step = 6
    ask(panel, start() | {"num_gpu_blocks": 64}, whole=False)
    assert panel.answer["has_more"]
    assert "step 6 of 26" in panel.answer["text_alternative"]
    assert len(panel.film["frames"]) == 28, "the film is still the one before"
    ask(panel, start() | {"num_gpu_blocks": 64}, whole=True)
    assert len(panel.film["frames"]) == 27
    assert panel.film == panel.pictures.encode()


def test_a_shorter_run_shows_its_last_step(panel: FilmPanel) -> None:
    ask(panel, start() | {"max_num_seqs": 1}, whole=True)
    panel.step = 78
    ask(panel, start(), whole=False)
    assert "step 27 of 27" in panel.answer["text_alternative"]
    ask(panel, start(), whole=True)
    assert panel.step == 27


def ask(panel: FilmPanel, values: dict[str, object], *, whole: bool) -> None:
    panel.question = {"ticket": panel.question["ticket"] + 1, "values": values, "width": 720, "whole": whole}


def test_impossible_settings_are_refused_with_a_message(panel: FilmPanel) -> None:
    panel.set(**start() | {"enable_chunked_prefill": False})
    assert "max_num_batched_tokens must be at least max_model_len (64)" in panel.answer["error"]
    panel.set(**start() | {"num_gpu_blocks": 8})
    assert "the whole cache has 7 blocks" in panel.answer["error"]


def start() -> dict[str, object]:
    return {knob.name: knob.value for knob in engine_knobs(CONFIG)}


MARK = "Recorded with the reference. Yours appears here when phase 1 is written."


@pytest.fixture(scope="module")
def recorded() -> FilmPanel:
    return require_result(engine_panel(Lab(6, "starter"), WORKLOAD, CONFIG, step=6))


@pytest.mark.parametrize(
    "changed",
    [
        {"num_gpu_blocks": 40},
        {"num_gpu_blocks": 12},
        {"enable_prefix_caching": False},
        {"max_num_seqs": 1},
        {"max_num_seqs": 8},
        {"max_num_batched_tokens": 4},
        {"policy": "priority"},
        {"policy": "priority", "enable_prefix_caching": False, "num_gpu_blocks": 15},
        {"enable_chunked_prefill": False, "max_num_batched_tokens": 64},
        {"enable_chunked_prefill": False, "max_num_batched_tokens": 64, "long_prefill_token_threshold": 0},
    ],
)
def test_recorded_knobs_show_what_the_engine_would_and_say_so(
    panel: FilmPanel, recorded: FilmPanel, changed: dict[str, object]
) -> None:
    live, kept = panel.run(**start() | changed), recorded.run(**start() | changed)
    assert (kept.comparison, kept.sentence) == (live.comparison, live.sentence)
    assert kept.picture(6).text_alternative == f"{MARK}\n{live.picture(6).text_alternative}"
    assert MARK in kept.picture(6).svg()
    assert all(MARK in picture.svg() for picture in kept.film().pictures)
    assert MARK not in live.picture(6).svg()


def test_a_setting_that_was_not_recorded_is_refused_with_a_message(recorded: FilmPanel) -> None:
    recorded.set(**start() | {"num_gpu_blocks": 20, "max_num_seqs": 3})
    assert "Not recorded" in recorded.answer["error"]
    assert "when phase 1 is written" in recorded.answer["error"]
    recorded.set(**start() | {"num_gpu_blocks": 8})
    assert "the whole cache has 7 blocks" in recorded.answer["error"]


def test_the_bench_is_recorded_at_the_settings_of_its_questions() -> None:
    made: Panel = require_result(bench(Lab(5, "starter")))
    asked: list[dict[str, Any]] = [{"load": 80}, {"prediction_sigma": 2}, {"workload": "chat"}]
    for changed in [*asked, {"time_to_first_token": 10}]:
        made.set(**({knob.name: knob.value for knob in made.known.values()} | changed))
        assert "error" not in made.answer, changed
    made.set(load=200)
    assert "Not recorded" in made.answer["error"]


@pytest.mark.parametrize(
    ("make", "module"),
    [
        (lambda lab: engine_panel(lab, WORKLOAD, CONFIG), "mini_vllm_labs.notebook.panels"),
        (bench, "mini_vllm_labs.notebook.panels"),
        (arena_bench, "mini_vllm_labs.notebook.arena_panel"),
    ],
)
def test_a_panel_runs_again_what_it_ran_before_a_save(
    make: Callable[[Lab], Any], module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamps, calls, call = [1], list[object](), PhaseCode.call

    def counted(*asked: Any) -> object:
        calls.append(asked)
        return call(*asked)

    monkeypatch.setattr(f"{module}.starter_stamps", lambda: tuple(stamps))
    monkeypatch.setattr(PhaseCode, "call", counted)
    made: Panel = require_result(make(Lab(5, "starter")))
    begun = len(calls)
    made.set(**made.values)
    assert len(calls) == begun
    stamps.append(2)
    made.set(**made.values)
    assert ("error" in made.answer, len(calls)) == (False, begun + 1)


def test_a_saved_starter_has_another_stamp(tmp_path: Path) -> None:
    (starter := tmp_path / "labs/phase13_scheduling_policies/starter.py").parent.mkdir(parents=True)
    starter.touch()
    before = starter_stamps(tmp_path)
    os.utime(starter, (1, 1))
    assert before != starter_stamps(tmp_path) == (10**9,)


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
