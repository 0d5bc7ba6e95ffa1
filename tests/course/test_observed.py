"""The recorded runs of phase 0 are what the reference does today."""

import json
from pathlib import Path
from typing import Any

import pytest

from course.traces.recorded_run import RecordedRun, lineup_to_record, recorded_run, write_run
from course.workloads.fallbacks import make_possible
from course.workloads.small_workload import SMALL_POOL, make_workload, run_workload
from mini_vllm.assembly.lineup import parse_lineup

OBSERVED = Path(__file__).parents[2] / "labs" / "observed"


@pytest.mark.parametrize(("name", "lineup"), [("all_phases", "solution:1-5"), ("phase_1_alone", "solution:1")])
def test_the_recorded_trace_is_current(name: str, lineup: str) -> None:
    team = parse_lineup(lineup)
    config, _ = make_possible(SMALL_POOL, team)
    records = json.loads(json.dumps(run_workload(make_workload(0, 8), config, team)))
    lines = [json.loads(line) for line in (OBSERVED / f"{name}.jsonl").read_text().splitlines()]
    assert [step for step in lines if "step" in step] == records


@pytest.fixture(scope="module")
def tour() -> RecordedRun:
    """The run of the tour, by the code of its notebook. To record it again: `write_run(run)` in the notebook."""
    notebook = json.loads((OBSERVED.parents[1] / "notebooks" / "00_tour.ipynb").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["lineup"] == parse_lineup("solution")
    run: RecordedRun = names["run"]
    return run


def test_the_recorded_tour_is_current(tour: RecordedRun, tmp_path: Path) -> None:
    write_run(tour, tmp_path / "tour.jsonl")
    assert recorded_run(tmp_path / "tour.jsonl") == recorded_run()


def test_the_tour_shows_what_its_notebook_asks_about(tour: RecordedRun) -> None:
    assert any(record["preempted"] for record in tour.steps)
    assert sum(answer.num_preemptions for answer in tour.answers) > 0


@pytest.mark.parametrize("lineup", ["starter", "solution:1-3,starter:4-6"])
def test_your_own_engine_is_watched_when_what_it_needs_of_yours_is_written(
    monkeypatch: pytest.MonkeyPatch, lineup: str
) -> None:
    monkeypatch.setenv("LAB_IMPL", lineup)
    assert lineup_to_record() is None, "nothing is written here"
    monkeypatch.setattr("course.traces.recorded_run.written_phases", lambda: [4, 5, 6])
    assert (lineup_to_record() is None) == (lineup == "starter")
    monkeypatch.setattr("course.traces.recorded_run.written_phases", lambda: [1, 2, 3, 4, 5, 6])
    assert lineup_to_record() == parse_lineup(lineup)


def test_the_tour_counts_as_computed_again_what_the_engine_counts(tour: RecordedRun) -> None:
    """The last token of a resumed request was sampled and never computed: it is computed for the first time."""
    notebook = (OBSERVED.parents[1] / "notebooks" / "00_tour.ipynb").read_text(encoding="utf-8")
    step, resumed = next(
        (record["step"], share) for record in tour.steps for share in record["scheduled"] if share["kind"] == "resumed"
    )
    again = tour.recording.state(step).num_recomputed_tokens
    assert f"Until step {step}, when B is done" in notebook
    assert (resumed["hit"], resumed["n"], again) == (16, 65, 64)
    assert f"so {resumed['n']} are computed: {again} for the second time" in notebook
