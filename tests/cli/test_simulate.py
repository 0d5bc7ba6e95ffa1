"""`mini-vllm simulate` and `mini-vllm calibrate`."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Commands


@pytest.mark.parametrize("width", [80, 100])
def test_a_simulation_prints_what_users_feel(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    shown = mini_vllm("simulate", "mixed", "--requests", 60, "--gpu", "l4").output
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= width
    text = " ".join(shown.split())
    for part in "time to first token|inter-token latency|p99|goodput|preemptions|assumed, not measured".split("|"):
        assert part in text


def test_json_is_for_programs(mini_vllm: Commands) -> None:
    record = json.loads(mini_vllm("simulate", "--requests", 60, "--json", "--slo-ttft", 0.000001).stdout)
    assert record["experiment"]["workload"] == "chat"
    assert record["slo"]["time_to_first_token"] == 1e-6
    assert record["share_good"] == 0.0
    spread = record["time_to_first_token"]
    assert 0 < spread["p50"] <= spread["p90"] <= spread["p99"]
    assert record["experiment"]["rate"] > 0


def test_a_sweep_has_a_row_and_a_record_per_value(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ("simulate", "documents", "--requests", 40, "--sweep", "max-num-batched-tokens=512,4096")
    shown = mini_vllm(*arguments).output
    assert "…" not in shown
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= 80
    assert [sum(line.split()[:1] == [value] for line in shown.splitlines()) for value in ("512", "4096")] == [1, 1]
    record = json.loads(mini_vllm(*arguments, "--json").stdout)
    assert record["values"] == ["512", "4096"]
    budgets = [run["experiment"]["engine"]["max_num_batched_tokens"] for run in record["runs"]]
    assert budgets == [512, 4096]
    assert record["runs"][0]["experiment"]["rate"] == record["runs"][1]["experiment"]["rate"]


def test_a_calibration_is_written_checked_and_used(mini_vllm: Commands, tmp_path: Path) -> None:
    """Whether the predictions are near enough is not tested here: that needs a quiet machine."""
    path = str(tmp_path / "calibration.json")
    shown = mini_vllm("calibrate", "--requests", 4, "--check", "--rounds", 2, "--output", path, "--cpu-time").output
    shown = " ".join(shown.split())
    parts = ("typical error", "burst", "documents", "shared-prefix", "of 9 predictions are within 15%", "of 2 rounds")
    assert [part for part in parts if part not in shown] == []
    record = json.loads(mini_vllm("simulate", "--calibration", path, "--scale", 0.1, "--requests", 30, "--json").stdout)
    assert record["cost_model"] == json.loads(Path(path).read_text())["cost"]
