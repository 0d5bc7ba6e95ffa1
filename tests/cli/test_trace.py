"""`mini-vllm trace`: its table, its files, and the traces that end early."""

import re
from pathlib import Path

import pytest

from mini_vllm import parse_lineup
from mini_vllm.core.request_queue import FCFSRequestQueue
from mini_vllm_labs.runs.parity.scenario import PUBLIC_TRACES
from mini_vllm_labs.runs.traces.trace_file import read_trace
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL, make_workload, run_workload
from tests.cli.conftest import Commands


def test_the_default_workload_shows_everything(mini_vllm: Commands) -> None:
    shown = mini_vllm("trace").output
    for heading in ("step", "scheduled", "total", "preempted", "evicted", "free", "finished"):
        assert heading in shown
    steps = run_workload(make_workload(0, 8), SMALL_POOL, parse_lineup("solution:1-5"))
    assert any(record["preempted"] for record in steps)
    assert any(share.get("hit") for record in steps for share in record["scheduled"])
    assert any(share["kind"] == "resumed" for record in steps for share in record["scheduled"])


def test_the_same_seed_gives_the_same_table_and_another_seed_another(mini_vllm: Commands) -> None:
    assert mini_vllm("trace", "--seed", 3).output == mini_vllm("trace", "--seed", 3).output
    assert mini_vllm("trace", "--seed", 3).output != mini_vllm("trace", "--seed", 4).output


@pytest.mark.parametrize("lineup", ["solution:1", *(f"solution:1-{last}" for last in range(2, 6))])
def test_every_seed_runs_with_every_number_of_phases(mini_vllm: Commands, lineup: str) -> None:
    for seed in range(20):
        mini_vllm("trace", "--seed", seed, "--requests", 12, "--lineup", lineup)


def test_a_written_trace_reads_back_as_the_same_table(mini_vllm: Commands, tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    written = mini_vllm("trace", "--jsonl", file, "--max-num-batched-tokens", 17).output
    read = mini_vllm("trace", "--read", file).output
    assert read.strip() == written[written.index(" step  scheduled") :].strip()
    assert read_trace(file)[1] == 17, "the budget travels with the file"


def test_steps_cuts_the_table_but_not_its_memory(mini_vllm: Commands) -> None:
    whole = mini_vllm("trace").output
    part = mini_vllm("trace", "--steps", "5-6").output
    rows = [line.split() for line in part.splitlines() if "/24" in line]
    assert [row[0] for row in rows] == ["5", "6"]
    assert all(row in [line.split() for line in whole.splitlines()] for row in rows)


def test_why_tells_each_request_and_step_also_from_a_file(mini_vllm: Commands, tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    shown = mini_vllm("trace", "--lineup", "solution:1-5", "--why", "--steps", "5-7", "--jsonl", file).output
    for line in (
        "step 5    r4     nothing: 4 of 4 seats are taken",
        "step 6    r3     nothing: r0 needed its blocks",
        "step 6    r4     nothing: r0 was short of blocks in this step, which closes admission",
        "step 7    r3     nothing: it needs 6 blocks, and 3 are free",
        "step 7    r4     nothing: r3 comes first and was refused",
        "r3     it waited 3 steps: 1 for tokens, 1 as a victim, 1 for blocks",
    ):
        assert line in shown
    assert shown.endswith(mini_vllm("trace", "--read", file, "--why", "--steps", "5-7").output)
    life = mini_vllm("trace", "--read", file, "--request", "r3").output.splitlines()
    assert life[0] == "Step 0: it arrives."
    assert life[3] == "Step 2: it gets 12 tokens, limited by the long-prefill threshold of 12 tokens."
    assert life[5] == "Steps 4 to 5: it gets one token in each step."
    assert life[-2:] == [
        "Step 9: it ends at its maximum length.",
        "In all it waited 3 steps: 1 for tokens, 1 as a victim, 1 for blocks.",
    ]


def test_why_refuses_an_unknown_request_and_a_trace_without_reasons(mini_vllm: Commands) -> None:
    recorded = ("--read", PUBLIC_TRACES / "named.jsonl", "--name", "preempted_hits_its_own_blocks")
    for options, message in (
        (("--request", "r99"), "no request 'r99'; its requests are r0, r1"),
        (recorded, "no reasons"),
    ):
        assert message in " ".join(mini_vllm("trace", "--why", *options, exit_code=2).stderr.split())


def test_the_last_line_adds_up_all_steps(mini_vllm: Commands) -> None:
    file = PUBLIC_TRACES / "named.jsonl"
    options = ("--read", file, "--name", "preempted_hits_its_own_blocks", "--steps", "9")
    printed = " ".join(mini_vllm("trace", *options).output.split())
    assert printed.endswith(
        "All 13 steps: 44 tokens computed, at most 24 in a step, 12 found in the cache; "
        "preemptions: 1; blocks evicted: 3."
    )


def test_recorded_scenarios_are_read_by_name(mini_vllm: Commands) -> None:
    file = PUBLIC_TRACES / "named.jsonl"
    shown = mini_vllm("trace", "--read", file, "--name", "priority_victim_leaves_uncomputed_cached_blocks").output
    assert "L for A (-8)" in shown
    assert "--name" in mini_vllm("trace", "--read", file, exit_code=2).stderr
    assert "no scenario" in mini_vllm("trace", "--read", file, "--name", "no-such-scenario", exit_code=2).stderr


@pytest.mark.parametrize("content", ["", "{}\n", "[1]\n", "not json\n", '{"token_budget": 4}\n'])
def test_a_file_that_is_no_trace_is_refused(mini_vllm: Commands, tmp_path: Path, content: str) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(content)
    assert "is not a trace" in mini_vllm("trace", "--read", file, exit_code=2).stderr


@pytest.fixture
def victims_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queue a preempted request after all others, which an FCFS engine must not do."""
    monkeypatch.setattr(FCFSRequestQueue, "prepend_request", FCFSRequestQueue.add_request)


@pytest.mark.usefixtures("victims_last")
def test_a_broken_invariant_ends_the_table_at_its_step(mini_vllm: Commands) -> None:
    ended = mini_vllm("trace", "--lineup", "solution:1-3", "--requests", "12", exit_code=1)
    step = int(re.search(r"an invariant was violated in step (\d+): \w+ arrived before", ended.stderr)[1])  # type: ignore[index]
    assert [int(number) for number in re.findall(r"^ +(\d+)  ", ended.stdout, re.MULTILINE)] == list(range(step))


@pytest.mark.usefixtures("victims_last")
def test_invariants_need_not_be_checked(mini_vllm: Commands) -> None:
    mini_vllm("trace", "--lineup", "solution:1-3", "--requests", "12", "--no-check-invariants")


def test_a_trace_shows_drafts_and_what_is_in_flight(mini_vllm: Commands) -> None:
    lineup = ("--lineup", "solution:1-5,solution:7-8")
    drafts = ("--speculative-method", "draft_model", "--num-speculative-tokens", "3")
    plain = mini_vllm("trace", "--lineup", "solution:1-5").output
    drafted = mini_vllm("trace", *lineup, *drafts).output
    overlapped = mini_vllm("trace", *lineup, "--async-scheduling").output
    assert re.search(r"r0:1\+\dd", drafted), "how many drafts pay is the adaptive length's to say"
    assert not re.search(r"r\d:1\+\dd", plain + overlapped)
    assert "r0:1 " in overlapped, "a token that is still in flight is decoded, not a prompt's"


@pytest.mark.parametrize("option", [("--speculative-method", "ngram"), ("--async-scheduling",)])
def test_the_text_stays(mini_vllm: Commands, option: tuple[str, ...]) -> None:
    arguments = ("generate", "Repeat these words: lamp, cup, dog.", "--max-tokens", "12")
    plain = mini_vllm(*arguments).stdout
    assert mini_vllm(*arguments, "--lineup", "solution:1-8", *option).stdout == plain
