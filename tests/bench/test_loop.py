"""`mini-vllm bench loop` grades a copy of the course; the figures themselves are not tested."""

import json

import pytest

from mini_vllm_labs.bench import save_to_verdict
from mini_vllm_labs.bench.save_to_verdict import BY_HAND, NEW, WAITING
from mini_vllm_labs.runs.starter_status import starter_path
from tests.cli.conftest import Commands


def test_three_ways_to_a_verdict_are_measured_on_a_copy(mini_vllm: Commands) -> None:
    before = starter_path(1).read_bytes()
    (case,) = json.loads(mini_vllm("bench", "loop", "--phase", "1", "--rounds", "1", "--json").stdout)["cases"]
    assert case["title"] == "Phase 1, task 1: from a save to the verdict"
    assert list(case["sides"]) == [BY_HAND, NEW, WAITING]
    assert all(side["values"][0] > 0 for side in case["sides"].values())
    assert starter_path(1).read_bytes() == before


def test_a_phase_that_is_not_written_is_named(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(save_to_verdict, "solutions_exist", lambda: False)
    monkeypatch.setattr(save_to_verdict, "COPIED", ())
    assert "--phase 3: write its starter first" in mini_vllm("bench", "loop", "--phase", "3", exit_code=2).output
