"""`mini-vllm stages`: the table, the sentences, and how it stops at an unwritten phase."""

import json

import pytest

from labs.phase2_block_pool import starter as starter2
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm_labs.cli.stages import name, sentences
from mini_vllm_labs.pictures.terminal.stage_sentences import describe
from mini_vllm_labs.runs.workloads.ablation import LineupResult, ablation_lineups, ablation_requests, run_lineup
from solutions.phase1_scheduler_step import clamp, schedule_step, update_from_output
from solutions.phase2_block_pool import PagedKVCacheManager
from tests.cli.conftest import Commands

HEADINGS = ("phases", "once", "held", "stalled", "again", "hits", "TTFT", "ITL")


@pytest.fixture(scope="module")
def found() -> list[LineupResult]:
    visits = ablation_requests()
    return [run_lineup(lineup, visits) for lineup in ablation_lineups(parse_lineup("solution"))]


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_has_a_row_and_a_sentence_per_stage(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch, found: list[LineupResult], width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("mini_vllm_labs.cli.stages.run_all", lambda *_: (found, None))
    lines = mini_vllm("stages").output.splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    shown = "\n".join(lines)
    assert all(heading in shown for heading in HEADINGS)
    for phases in ("1", "1-2", "1-3", "1-4", "1-5"):
        assert sum(line.split()[:1] == [phases] for line in lines) == 2, shown
    stalled = next(line for line in lines if line.split()[:1] == ["1-2"]).split()
    assert stalled[-4:] == ["-"] * 4, "latencies of the served requests alone would look too good"
    assert "requests stall." in " ".join(shown.split())
    assert "a whole prompt, because before phase 5 prompts are not chunked" in " ".join(shown.split())


def test_json_is_for_programs(mini_vllm: Commands) -> None:
    record = json.loads(mini_vllm("stages", "--json", "--lineup", "solution:1-2").stdout)
    assert [stage["phases"] for stage in record["stages"]] == ["1", "1-2"]
    assert record["next"] is None
    assert record["stages"][1]["num_stalled"] > 0
    assert record["stages"][0]["time_to_first_token"]["mean"] > 0


def test_electives_come_last(mini_vllm: Commands) -> None:
    lines = mini_vllm("stages", "--lineup", "solution:1-5,solution:7-8").output.splitlines()
    for phases in ("1-5", "1-5,7", "1-5,7-8"):
        assert sum(line.split()[:1] == [phases] for line in lines) == 2, lines
    assert "one in 4 is wrong" in " ".join(" ".join(lines).split())


def test_nothing_written_is_no_error(mini_vllm: Commands) -> None:
    shown = mini_vllm("stages", "--lineup", "starter").output
    assert "Phase 1, task 1: clamp: not written yet." in shown


def test_the_first_unwritten_phase_ends_the_table(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_IMPL", "starter")
    use_phase_1(monkeypatch)
    lines = mini_vllm("stages").output.splitlines()
    assert sum(line.split()[:1] == ["1"] for line in lines) == 2
    assert not any(line.split()[:1] == ["1-2"] for line in lines)
    assert lines[-1].startswith("Phase 2, task 1: make the free queue: not written yet. Write it next")


def use_phase_1(monkeypatch: pytest.MonkeyPatch) -> None:
    from labs.phase1_scheduler_step import starter

    for function in (clamp, schedule_step, update_from_output):
        monkeypatch.setattr(starter, function.__name__, function)


def test_a_phase_that_changes_an_output_is_named(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    class Backwards(PagedKVCacheManager):
        def block_ids(self, request_id: str) -> list[int]:
            return super().block_ids(request_id)[:1] * len(super().block_ids(request_id))

    monkeypatch.setattr(starter2, "PagedKVCacheManager", Backwards)
    shown = " ".join(mini_vllm("stages", "--lineup", "solution:1,starter:2").output.split())
    assert "got a different output from that of phase 1 alone" in shown


def test_phase_6_is_described_by_its_decisions(found: list[LineupResult]) -> None:
    fake = found[-1]
    real = LineupResult(
        parse_lineup("solution"), fake.num_requests, decisions=list(fake.decisions), num_steps=fake.num_steps
    )
    assert f"Not one decision differs in {fake.num_steps} steps" in describe(real, fake, fake)
    real.decisions[4] = ()
    assert "differ from step 4 on" in describe(real, fake, fake)
    assert sentences([fake], mentions_phase_6=True).row_count == 1


@pytest.mark.parametrize(
    ("lineup", "shown"),
    [
        ("solution", "1-6"),
        ("starter:1-3,solution:4-6", "1-6"),
        ("solution:1-4", "1-4"),
        ("solution:1,starter:3", "1,3"),
    ],
)
def test_a_stage_is_named_by_its_phases(lineup: str, shown: str) -> None:
    assert name(parse_lineup(lineup)) == shown
