"""The recorded runs of phase 0 match what the reference does today."""

import json
from pathlib import Path
from typing import Any

import pytest

import mini_vllm
import mini_vllm_labs.notebook
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm_labs.fresh.jobs import ChatRun
from mini_vllm_labs.notebook import Lab
from mini_vllm_labs.runs.workloads.fallbacks import make_possible
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL, make_workload, run_workload

OBSERVED = Path(__file__).parents[2] / "labs" / "observed"


@pytest.mark.parametrize(("name", "lineup"), [("all_phases", "solution:1-5"), ("phase_1_alone", "solution:1")])
def test_the_recorded_trace_is_current(name: str, lineup: str) -> None:
    team = parse_lineup(lineup)
    config, _ = make_possible(SMALL_POOL, team)
    records = json.loads(json.dumps(run_workload(make_workload(0, 8), config, team)))
    lines = [json.loads(line) for line in (OBSERVED / f"{name}.jsonl").read_text().splitlines()]
    assert [step for step in lines if "step" in step] == records


@pytest.fixture
def tour() -> ChatRun:
    cells = json.loads((OBSERVED.parents[1] / "notebooks" / "00_tour.ipynb").read_text(encoding="utf-8"))["cells"]
    (source,) = ("".join(cell["source"]) for cell in cells if cell["source"][0].startswith("questions = ["))
    names: dict[str, Any] = vars(mini_vllm_labs.notebook) | vars(mini_vllm) | {"lab": Lab(6, "starter")}
    exec(source, names)
    run: ChatRun = names["run"]
    assert isinstance(run, ChatRun)
    return run


def test_the_tour_counts_as_computed_again_what_the_engine_counts(tour: ChatRun) -> None:
    """The last token of a resumed request was sampled but never computed, so it is computed for the first time."""
    notebook = (OBSERVED.parents[1] / "notebooks" / "00_tour.ipynb").read_text(encoding="utf-8")
    step, resumed = next(
        (record["step"], share)
        for record in tour.recording.steps
        for share in record["scheduled"]
        if share["kind"] == "resumed"
    )
    again = tour.recording.state(step).num_recomputed_tokens
    assert f"until step {step}, when B is done" in notebook
    assert (resumed["hit"], resumed["n"], again) == (16, 65, 64)
    assert f"so {resumed['n']} are computed, {again} of them for a second time" in notebook
