"""Results in a notebook's cells, or a notice about a missing task."""

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.config import SpeculativeConfig
from mini_vllm_labs.fresh.jobs import WorkloadRun
from mini_vllm_labs.notebook import Lab, Notice, compare, figures, same_answers, show, watch, watch_blocks
from mini_vllm_labs.notebook.panels import require_result
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL, make_workload, run_workload
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

WORKLOAD = make_workload(seed=1, num_requests=4)


def test_a_lab_is_cut_to_its_phases() -> None:
    lab = Lab(3, "solution")
    assert str(lab.lineup()) == "solution:1-3"
    assert str(lab.lineup(1)) == "solution:1"
    assert "3 preemption: reference, 4 prefix cache: absent" in repr(lab)


def test_an_elective_is_there_where_a_run_uses_it() -> None:
    drafts = replace(SMALL_POOL, speculative_config=SpeculativeConfig(adaptive=False))
    ahead, both = replace(SMALL_POOL, async_scheduling=True), replace(drafts, async_scheduling=True)
    assert [str(Lab(phase, "starter").lineup()) for phase in (7, 8)] == ["starter:1-7", "starter:1-6,starter:8"]
    lab = Lab(8, "solution")
    cut = [str(lab.lineup(5, config)) for config in (SMALL_POOL, drafts, ahead, both)]
    assert cut == ["solution:1-5", "solution:1-5,solution:7", "solution:1-5,solution:8", "solution:1-5,solution:7-8"]
    assert str(Lab(7, "solution:1-6,starter:7").lineup()) == "solution:1-6,starter:7"
    plain, *others = (lab.play(WORKLOAD, config) for config in (SMALL_POOL, drafts, ahead, both))
    assert isinstance(plain, WorkloadRun)
    for other in others:
        assert isinstance(other, WorkloadRun)
        assert other.token_ids == plain.token_ids
    assert len({str(run.recording.steps) for run in (plain, *others) if isinstance(run, WorkloadRun)}) == 4
    refused = Lab(6, "solution").play(WORKLOAD, ahead)
    assert isinstance(refused, Notice)
    assert "async_scheduling needs phase 8" in refused.text


@pytest.mark.parametrize("phase", [7, 8])
def test_the_ablation_of_an_elective_ends_with_it(phase: int) -> None:
    charts = require_result(Lab(phase, "solution").ablation())
    assert list(charts.rows)[-2:] == ["phases 1-5", f"phases 1-5, {phase}"]


def test_lab_impl_names_the_code_unless_the_cell_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_IMPL", "solution:1-2,starter:3")
    assert str(Lab(3).lineup()) == "solution:1-2,starter:3"
    assert str(Lab(3, "starter").lineup()) == "starter:1-3"
    monkeypatch.delenv("LAB_IMPL")
    assert str(Lab(2).lineup()) == "starter:1-2"


def test_a_phase_that_is_none_is_refused() -> None:
    for phase in (0, 15):
        with pytest.raises(ValueError, match=f"phase must be from 1 to 14, got {phase}"):
            Lab(phase)


def test_a_played_workload_is_the_one_that_the_engine_plays() -> None:
    lab = Lab(5, "solution")
    played = require_result(lab.play(WORKLOAD))
    explained = ("reasons", "limits")  # what else is recorded for a drawn run
    steps = [{key: value for key, value in step.items() if key not in explained} for step in played.recording.steps]
    assert steps == run_workload(WORKLOAD, SMALL_POOL, lab.lineup())
    assert played.token_ids.keys() == {arrival.request_id for arrival in WORKLOAD}


def test_a_config_is_taken_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    growing = [TimedRequest(0, name, [ord(name)] * 4, max_tokens=9, priority=0) for name in "ABC"]
    played = require_result(
        Lab(2, "solution").play(growing, replace(SMALL_POOL, num_gpu_blocks=5, max_num_batched_tokens=128))
    )
    assert played.recording.info.num_blocks == 4
    assert "0 of 4 blocks are free" in played.stalled
    assert played.stalled in capsys.readouterr().out


def test_a_config_that_the_phases_cannot_serve_is_refused_with_a_message() -> None:
    refused = Lab(4, "solution").play(WORKLOAD, SMALL_POOL)
    assert isinstance(refused, Notice)
    assert "phase 5 (chunked prefill) is absent" in refused.text


@pytest.mark.parametrize("lines", [False, True])
def test_a_policy_is_taken_by_its_name(lines: bool) -> None:
    lab, workload = Lab(5, "solution"), make_workload(0, 8)
    first_come, static = (require_result(lab.play(workload, policy=name, lines=lines)) for name in ("fcfs", "static"))
    assert first_come.recording.steps == require_result(lab.play(workload)).recording.steps
    assert len(static.recording.steps) > len(first_come.recording.steps)
    assert "policy must be one of fcfs, priority, sjf, " in str(lab.play(workload, policy="lifo", lines=lines))


def test_runs_are_set_side_by_side_in_figures() -> None:
    lab = Lab(4, "solution")
    small, large = require_result(Lab(2, "solution").play(WORKLOAD)), require_result(lab.play(WORKLOAD))
    runs = {"<roomy>": large, "stalled": WorkloadRun(small.recording, {}, "why")}
    charts = require_result(figures(runs, first_token="r0"))
    total = sum(record["total"] for record in runs["<roomy>"].recording.steps)
    assert charts.rows["<roomy>"]["computed"] == str(total)
    bundle = charts._repr_mimebundle_()
    assert f"computed: {total} (<roomy>)" in bundle["text/plain"]
    assert f"computed: {total} (&lt;roomy&gt;)" in bundle["text/html"]
    assert "Stalled, and did not finish: stalled." in bundle["text/html"]
    assert "first token of r0" in bundle["text/plain"]
    notice = Notice("missing", "phase 4")
    assert figures({"here": runs["<roomy>"], "not here": notice}) is notice


def test_a_hash_chain_is_drawn_with_the_phase_of_the_lab() -> None:
    prompts = {"A": [1, 2, 3, 4, 5], "B": [1, 2, 3, 9, 5], "C": [1, 2, 3, 4, 5]}
    drawn = require_result(Lab(4, "solution").hash_chain(prompts, block_size=2, salts={"C": "blue"}))
    assert "B finds: hit 2 of 5 tokens" in drawn.text_alternative
    assert "C finds: hit 0 of 5 tokens" in drawn.text_alternative


EDITING = """
import shutil
from mini_vllm_labs.notebook import Lab
from mini_vllm_labs.runs.workloads.small_workload import make_workload
from mini_vllm_labs.runs.starter_status import starter_path

lab, workload = Lab(1, "starter"), make_workload(1, 4)
print("untouched:", repr(lab))
shutil.copy("solutions/phase1_scheduler_step.py", starter_path(1))
print("written:", type(lab.play(workload)))
starter_path(1).write_text("def broken(:")
print("broken:", repr(lab.play(workload)))
"""


def test_an_edited_starter_runs_at_once(tmp_path: Path) -> None:
    """The same `Lab` finds no code, then the code saved in the meantime, then a file that Python cannot read."""
    for name in ("mini_vllm", "mini_vllm_labs", "labs", "solutions"):
        shutil.copytree(CHECKOUT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-c", EDITING]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    untouched, written, broken = re.split("written:|broken:", printed)
    assert "Phase 1, task 1: clamp" in untouched
    assert "WorkloadRun" in written
    assert "starter.py, line 1: Python cannot read this line" in broken
    assert "def broken(:\\n           ^" in broken


def test_the_ablation_has_a_bar_for_each_phase_and_the_references_mark() -> None:
    charts = require_result(Lab(3, "solution").ablation())
    assert list(charts.rows) == ["phase 1", "phases 1-2", "phases 1-3"]
    assert "6 preemptions" in charts.below[1]
    preempted = charts.rows["phases 1-3"]["preempted"]
    assert f"{preempted} (phases 1-3, reference {preempted})" in repr(charts)
    assert "Line across a bar: the reference." in charts.below
    for picture in charts.pictures:
        assert picture.text_alternative in charts._repr_mimebundle_()["text/html"]


def text_of(widget: Any) -> str:
    data, _ = widget._repr_mimebundle_()
    return str(data["text/plain"])


def test_pictures_of_runs_and_notices_instead_of_them() -> None:
    lab = Lab(4, "solution")
    before, after = lab.play(WORKLOAD, phases=3), lab.play(WORKLOAD)
    assert "step 2 of" in text_of(watch(after, 2))
    assert "before" in text_of(compare(before, after, ("before", "after")))
    assert "step 2 of" in text_of(watch_blocks(after, 2))
    assert same_answers(before, after) == "All 4 requests generated the same tokens in both runs."
    notice = Notice("missing", "phase 4")
    assert watch(notice) is notice
    assert compare(before, notice, ("before", "after")) is notice
    assert same_answers(notice, after) is notice


def test_show_passes_a_notice_on() -> None:
    notice = Notice("title", "<b>text</b>")
    assert show(len, notice) is notice
    assert show(len, [1, 2]) == 2
    bundle = notice._repr_mimebundle_()
    assert "&lt;b&gt;" in bundle["text/html"]
    assert bundle["text/plain"] == "title\n<b>text</b>"


def test_only_requests_of_both_runs_are_compared_and_different_answers_named() -> None:
    run = require_result(Lab(1, "solution").play(WORKLOAD))
    one, none = WorkloadRun(run.recording, {"r1": run.token_ids["r1"]}), WorkloadRun(run.recording, {})
    other = WorkloadRun(run.recording, {**run.token_ids, "r1": [0]})
    assert same_answers(one, run) == "The request generated the same tokens in both runs."
    assert same_answers(run, none) == "The two runs have no request in common."
    assert "DIFFERENT answers for r1" in str(same_answers(run, other))


@pytest.mark.parametrize(
    ("phase", "task", "command"),
    [
        (1, 1, "LAB_IMPL=solution pytest labs/phase1_scheduler_step -m task1_1"),
        (7, 5, "LAB_IMPL=solution:1-7 pytest labs/phase7_speculative_decoding -m task7_5"),
    ],
)
def test_with_the_reference_all_tests_pass_and_the_code_is_named(phase: int, task: int, command: str) -> None:
    graded = Lab(phase, "solution").test(task)
    assert graded
    assert graded.command == command
    assert "REFERENCE" in repr(graded)
    page = graded._repr_mimebundle_()["text/html"]
    assert set(re.findall(r'class="mvt-dot (\w+)"', page)) == {"passed"}
    assert "the reference&#x27;s code" in page
    assert "mvt-failure" not in page.partition("</style>")[2]
