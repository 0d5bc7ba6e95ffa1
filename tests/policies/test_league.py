"""The league: a ranking, and a reason for each file without a rank.

The claims: each result points in the direction that its card states.
"""

import json
import os
import socket
from pathlib import Path

import pytest

from labs.phase13_scheduling_policies import starter
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm_labs.runs.sandbox.read_only import bubblewrap
from mini_vllm_labs.simulation.arena.claims import CLAIMS, PolicyClaim
from mini_vllm_labs.simulation.arena.league import Entry, run_league
from mini_vllm_labs.simulation.arena.loads import UnevenOutputs
from mini_vllm_labs.simulation.arena.own_answers import kendalls_tau
from tests.cli.conftest import Commands

LINEUP = parse_lineup("solution:1-5")
HEAD = """
from mini_vllm import SamplingParams
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
class MyPolicy(SchedulingPolicy):
"""
RANK = HEAD + "    def rank(self, request):\n        "
PLACED = {
    "last_first": RANK + "return -request.arrival_time",
    "draws": RANK + "import random; return random.random()",
    "prints": RANK + "print('{\"goodput\": 99.0}'); return 0",
}
SHORTEN = "for r in step.waiting: r.sampling_params = SamplingParams(max_tokens=1, ignore_eos=True)"
FAILING = {
    "raises": (RANK + "return 1 / 0", "ZeroDivisionError: division by zero (line 6)"),
    "leaves": (RANK + "raise SystemExit", "SystemExit"),
    "exits": ("import os; os._exit(3)", "ended its process with exit code 3"),
    "loops": (RANK + "while True: pass", "stopped after 3 seconds of CPU time"),
    "stalls": (HEAD + "    def serve_order(self, running): return []", "StalledError: no more requests can"),
    "shortens": (HEAD + f"    def start_step(self, step):\n        {SHORTEN}", "got 1 of its"),
    "copies": (
        "from mini_vllm_labs.policies.priority import Priority as MyPolicy",
        "line 1 imports mini_vllm_labs.policies.priority",
    ),
    "other": ("class MyPolicy: pass", "no class MyPolicy(SchedulingPolicy)"),
    "broken": ("def broken(:", "SyntaxError"),
}
JAILED = {
    "writes": ("open('written', 'w')", "Read-only file system"),
    "writes to tmp": ("open('/tmp/mini_vllm_written', 'w')", "Read-only file system"),
    "connects": ("import socket; socket.create_connection(ADDRESS, 2)", "Error: "),
    "looks around": ("import os; raise ValueError(sorted(filter(str.isdecimal, os.listdir('/proc')))[3:])", "[]"),
}
UNWRITTEN = "solution:1-5,starter:7"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("league")
    for name, source in (PLACED | {name: source for name, (source, _) in FAILING.items()}).items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    return [*folder.iterdir(), folder / "missing.py", Path(str(starter.__file__))]


@pytest.fixture(scope="module")
def entries(files: list[Path]) -> list[Entry]:
    return run_league(files, LINEUP, cpu_seconds=3)


def test_the_best_goodput_comes_first_and_then_what_has_no_place(entries: list[Entry]) -> None:
    placed = [entry for entry in entries if entry.place]
    assert {entry.name for entry in placed} == {"phase13_scheduling_policies", *PLACED}
    assert entries[: len(placed)] == placed
    assert [entry.score for entry in placed] == sorted(entry.score for entry in placed)
    first_come = {entry.place for entry in placed if entry.name in ("phase13_scheduling_policies", "prints")}
    assert len(first_come) == 1, "equal policies share a place, and a print is no answer"


def test_a_file_that_fails_has_a_row_with_the_reason(entries: list[Entry]) -> None:
    problems = {entry.name: entry.problem for entry in entries if not entry.place}
    assert "cannot be read (FileNotFoundError)" in problems.pop("missing")
    assert problems.keys() == FAILING.keys()
    for name, (_, reason) in FAILING.items():
        assert reason in problems[name]


@pytest.mark.skipif("REQUIRE_JAIL" not in os.environ and not bubblewrap(), reason="there is no bubblewrap")
def test_with_bubblewrap_a_file_changes_nothing_outside_of_its_process(tmp_path: Path) -> None:
    for name, (source, _) in JAILED.items():
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = JAILED["connects"][0].replace("ADDRESS", str(server.getsockname()))
        (tmp_path / "connects.py").write_text(source, encoding="utf-8")
        found = {entry.name: entry.problem for entry in run_league(list(tmp_path.iterdir()), LINEUP)}
    assert {name: reason in found[name] for name, (_, reason) in JAILED.items()} == dict.fromkeys(JAILED, True), found


def test_scores_are_compared_by_goodput_then_fairness_then_latency() -> None:
    best_first = [Entry("a", 1, 2.0, 0.1, 9.0), Entry("b", 2, 1.0, 0.9, 9.0), Entry("c", 3, 1.0, 0.8, 1.0)]
    best_first += [Entry("d", 4, 1.0, 0.8, 2.0), Entry("e", problem="raised")]
    assert sorted(best_first[1:] + best_first[:1], key=lambda entry: entry.score) == best_first


def test_the_same_seed_gives_the_same_table_and_another_one_another(mini_vllm: Commands, files: list[Path]) -> None:
    quick = [path for path in files if path.stem in ("draws", "starter", "raises")]
    runs = [json.loads(mini_vllm("league", *quick, "--seed", seed, "--json").stdout) for seed in (1, 1, 2)]
    assert runs[0]["entries"] == runs[1]["entries"] != runs[2]["entries"]
    assert all(run["per_minute"] > 0 for run in runs)


def test_the_table_names_its_order_and_its_rate(mini_vllm: Commands, files: list[Path]) -> None:
    two = [path for path in files if path.stem in ("last_first", "raises")]
    shown = " ".join(mini_vllm("league", *two).output.split())
    assert "1 last_first" in shown
    assert all(text in shown for text in ("ZeroDivisionError", "then Jain's index", "2 files, ", " a minute"))


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_a_claim_is_shown_or_said_not_to_be(claim: PolicyClaim) -> None:
    ours, holds = claim.measure(parse_lineup("solution:1-5"))
    assert holds is claim.shown, ours


@pytest.mark.parametrize("variation", [0.0, 0.5, 4.0])
def test_uneven_outputs_have_the_mean_and_the_variation_that_they_name(variation: float) -> None:
    lengths = [r.num_output_tokens for r in UnevenOutputs(20_000, 1.0, 400.0, variation).requests(0)]
    mean = sum(lengths) / len(lengths)
    squares = sum((length - mean) ** 2 for length in lengths) / len(lengths)
    assert mean == pytest.approx(400, rel=0.05)
    assert squares / mean**2 == pytest.approx(variation, rel=0.15, abs=0.01)


def test_kendalls_tau_counts_pairs() -> None:
    assert kendalls_tau([1, 2, 3], [10, 20, 30]) == 1
    assert kendalls_tau([1, 2, 3], [30, 20, 10]) == -1
    assert kendalls_tau([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(4 / 6)
    assert kendalls_tau([1, 1, 2], [1, 2, 3]) == pytest.approx(2 / (2 * 3) ** 0.5)


def test_the_command_shows_what_is_said_beside_what_is_found(mini_vllm: Commands) -> None:
    shown = " ".join(mini_vllm("claims", "sarathi").output.split())
    assert "arXiv 2403.02310" in shown
    assert "ms become" in shown
    [record] = json.loads(mini_vllm("claims", "sarathi", "--json").stdout)
    assert record["holds"] is True


def test_a_claim_about_code_that_is_not_written_says_so_and_the_others_go_on(mini_vllm: Commands) -> None:
    found = json.loads(mini_vllm("claims", "adaserve", "to completion", "--lineup", UNWRITTEN, "--json").stdout)
    assert [record["holds"] for record in found] == [None, True]
    assert "not measured: Phase 7" in found[0]["ours"]
