"""The league: an order, a reason for each file that has none, and the same table for the same seed."""

import json
from pathlib import Path

import pytest

from arena.league import Entry, run_league
from labs.elective_policies import starter
from mini_vllm.assembly.lineup import parse_lineup
from tests.cli.conftest import Commands, mini_vllm  # noqa: F401 (a fixture)

LINEUP = parse_lineup("solution:1-5")
HEAD = """
from mini_vllm import SamplingParams
from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy
class MyPolicy(SchedulingPolicy):
"""
FILES = {
    "last_first": HEAD + "    def rank(self, request): return -request.arrival_time",
    "draws": HEAD + "    def rank(self, request): import random; return random.random()",
    "prints": HEAD + "    def start_step(self, step): print('{\"goodput\": 99.0}')",
    "raises": HEAD + "    def rank(self, request):\n        return 1 / 0",
    "leaves": HEAD + "    def rank(self, request): raise SystemExit",
    "exits": "import os; os._exit(3)",
    "loops": HEAD + "    def rank(self, request):\n        while True: pass",
    "stalls": HEAD + "    def serve_order(self, running): return []",
    "shortens": HEAD
    + "    def start_step(self, step):\n"
    + "        for request in step.waiting: request.sampling_params = SamplingParams(max_tokens=1, ignore_eos=True)",
    "copies": "from policies.priority import Priority as MyPolicy",
    "other": "class MyPolicy: pass",
    "broken": "def broken(:",
}
REASONS = {
    "raises": "ZeroDivisionError: division by zero (line 6)",
    "leaves": "SystemExit",
    "exits": "ended its process with exit code 3",
    "loops": "stopped after 3 seconds of CPU time",
    "stalls": "StalledError: no request can be scheduled any more",
    "shortens": "got 1 of its",
    "copies": "line 1 imports policies.priority",
    "other": "no class MyPolicy(SchedulingPolicy)",
    "broken": "SyntaxError",
    "missing": "cannot be read (FileNotFoundError)",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("league")
    for name, source in FILES.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    return [*(folder / f"{name}.py" for name in FILES), folder / "missing.py", Path(str(starter.__file__))]


@pytest.fixture(scope="module")
def entries(files: list[Path]) -> list[Entry]:
    return run_league(files, LINEUP, cpu_seconds=3)


def test_the_best_goodput_comes_first_and_then_what_has_no_place(entries: list[Entry]) -> None:
    placed = [entry for entry in entries if entry.place]
    assert {entry.name for entry in placed} == {"elective_policies", "last_first", "draws", "prints"}
    assert entries[: len(placed)] == placed
    assert [entry.score for entry in placed] == sorted(entry.score for entry in placed)
    first_come = {entry.place for entry in placed if entry.name in ("elective_policies", "prints")}
    assert len(first_come) == 1, "equal policies share a place, and a print is no answer"


@pytest.mark.parametrize("name", REASONS)
def test_a_file_that_fails_has_a_row_with_the_reason(entries: list[Entry], name: str) -> None:
    (entry,) = [entry for entry in entries if entry.name == name]
    assert REASONS[name] in entry.problem
    assert entry.place == 0


def test_scores_are_compared_by_goodput_then_fairness_then_latency() -> None:
    best_first = [Entry("a", 1, 2.0, 0.1, 9.0), Entry("b", 2, 1.0, 0.9, 9.0), Entry("c", 3, 1.0, 0.8, 1.0)]
    best_first += [Entry("d", 4, 1.0, 0.8, 2.0), Entry("e", problem="raised")]
    assert sorted(best_first[1:] + best_first[:1], key=lambda entry: entry.score) == best_first


def test_the_same_seed_gives_the_same_table_and_another_one_another(
    mini_vllm: Commands,  # noqa: F811
    files: list[Path],
) -> None:
    quick = [path for path in files if path.stem in ("draws", "starter", "raises")]
    runs = [json.loads(mini_vllm("league", *quick, "--seed", seed, "--json").stdout) for seed in (1, 1, 2)]
    assert runs[0]["entries"] == runs[1]["entries"] != runs[2]["entries"]
    assert all(run["per_minute"] > 0 for run in runs)


def test_the_table_names_its_order_and_its_rate(mini_vllm: Commands, files: list[Path]) -> None:  # noqa: F811
    shown = " ".join(mini_vllm("league", files[0], files[3]).output.split())
    assert "1 last_first" in shown
    assert "ZeroDivisionError" in shown
    assert "then Jain's index" in shown
    assert "2 files, " in shown
    assert "a minute" in shown
