"""The recorded traces of phase 0 are what the reference decides today."""

import json
from pathlib import Path

import pytest

from mini_vllm.cli.absences import make_possible
from mini_vllm.lineup import parse_lineup
from mini_vllm.workload import SMALL_POOL, make_workload, run_workload

OBSERVED = Path(__file__).parents[2] / "labs" / "observed"


@pytest.mark.parametrize(("name", "lineup"), [("all_phases", "solution:1-5"), ("phase_1_alone", "solution:1")])
def test_the_recorded_trace_is_current(name: str, lineup: str) -> None:
    team = parse_lineup(lineup)
    config, _ = make_possible(SMALL_POOL, team)
    records = json.loads(json.dumps(run_workload(make_workload(0, 8), config, team)))
    lines = [json.loads(line) for line in (OBSERVED / f"{name}.jsonl").read_text().splitlines()]
    assert [step for step in lines if "step" in step] == records
