"""`mini-vllm simulate`, `calibrate`, and `incidents`, which keeps prompting until a knob is chosen and stops when the
input ends."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mini_vllm import Lineup, parse_lineup
from mini_vllm_labs.cli import incidents as command
from mini_vllm_labs.cli.main import app
from mini_vllm_labs.simulation.incidents import Incident, Runs, incidents
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


def test_why_names_what_bound_the_load_and_moves_the_setting(mini_vllm: Commands) -> None:
    arguments = ("simulate", "chat", "--requests", 80, "--max-num-seqs", 2, "--why")
    shown = " ".join(mini_vllm(*arguments).output.split())
    assert "What bound this load: requests got no token for" in shown
    assert "With max_num_seqs 4 instead of 2: requests got no token for" in shown
    assert set(json.loads(mini_vllm(*arguments, "--json").stdout)["waited"]) == {"seats"}
    refused = mini_vllm(*arguments, "--sweep", "rate=1,2", exit_code=2).output
    assert "--why explains a single run" in refused


def test_a_calibration_is_written_checked_and_used(mini_vllm: Commands, tmp_path: Path) -> None:
    """Whether the predictions are close enough is not tested here, because that would need a quiet machine."""
    path = str(tmp_path / "calibration.json")
    shown = mini_vllm("calibrate", "--requests", 4, "--check", "--rounds", 2, "--output", path, "--cpu-time").output
    shown = " ".join(shown.split())
    parts = ("typical error", "burst", "documents", "shared-prefix", "of 9 predictions are within 15%", "of 2 rounds")
    assert [part for part in parts if part not in shown] == []
    record = json.loads(mini_vllm("simulate", "--calibration", path, "--scale", 0.1, "--requests", 30, "--json").stdout)
    assert record["cost_model"] == json.loads(Path(path).read_text())["cost"]


run_incident = Incident.run


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, int, Lineup], Runs]:
    """A lineup's runs of the incident with one seed, cached because they take a second and never differ."""
    return {}


@pytest.fixture(autouse=True)
def two_of_the_ten(monkeypatch: pytest.MonkeyPatch, found: dict[tuple[str, int, Lineup], Runs]) -> None:
    def run_once(incident: Incident, lineup: Lineup) -> Runs:
        key = (incident.title, incident.experiment.seed, lineup)
        if key not in found:
            found[key] = run_incident(incident, lineup)
        return found[key]

    monkeypatch.setattr(Incident, "run", run_once)
    monkeypatch.setattr(command, "incidents", lambda seed: incidents(seed)[:2])
    monkeypatch.setenv("COLUMNS", "100")


def play(*lines: str) -> str:
    arguments = ["incidents", "--seed", "3", "--lineup", "solution:1-5"]
    done = CliRunner().invoke(app, arguments, input="".join(f"{line}\n" for line in lines))
    assert done.exit_code == 0, done.output
    return done.stdout


def right_knobs() -> list[int]:
    lineup = replace(parse_lineup("solution:1-5"), runner="absent")
    return [incident.run(lineup).best + 1 for incident in incidents(3)[:2]]


def test_the_right_knobs_earn_all_points() -> None:
    shown = play(*map(str, right_knobs()))
    assert shown.count(": 10 of 10 points") == 2
    assert shown.endswith("20 of 20 points in 2 of 2 incidents, seed 3.\n")
    assert "1 of 2 · " in shown
    assert re.search(r"03:\d\d, .* is \d.* requests a second of", shown)
    assert shown.count("as it was") == 2


def test_what_is_no_knob_is_asked_again() -> None:
    shown = play("five", "5", "0", "-1", "", "1.0", str(right_knobs()[0]))
    for typed in ("'five'", "'5'", "'0'", "'-1'", "''", "'1.0'"):
        assert f"a knob is a number from 1 to 4, got {typed}" in shown
    assert shown.endswith("10 of 10 points in 1 of 2 incidents, seed 3.\n"), "the input has ended"


def test_quit_and_an_empty_input_end_the_game() -> None:
    assert play("/quit").endswith("0 of 0 points in 0 of 2 incidents, seed 3.\n")
    assert play().endswith("0 of 0 points in 0 of 2 incidents, seed 3.\n")


def test_answers_asks_nothing(mini_vllm: Commands) -> None:
    shown = mini_vllm("incidents", "--answers", "--lineup", "solution:1-5").stdout
    assert shown.count("\nKnob ") == 2
    assert "points" not in shown
