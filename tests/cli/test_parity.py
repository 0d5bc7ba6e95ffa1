"""`mini-vllm parity`: what counts as a difference, what is out of scope, and which files are rejected."""

import gzip
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mini_vllm_labs.cli.parity import load
from mini_vllm_labs.runs.parity import verdict
from mini_vllm_labs.runs.parity.scenario import PUBLIC_TRACES
from solutions.phase2_block_pool import PagedKVCacheManager
from solutions.phase5_chunked_prefill import ChunkedPrefillPolicy
from tests.cli.conftest import Commands

Write = Callable[[list[Any]], Path]
NAMED = PUBLIC_TRACES / "named.jsonl"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def _write(lines: list[Any]) -> Path:
        file = tmp_path / "some.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return file

    return _write


def named(name: str) -> dict[str, Any]:
    lines = map(json.loads, NAMED.read_text().splitlines())
    return next(line for line in lines if line["name"] == name)


def test_the_public_traces_match_and_those_of_absent_electives_are_counted(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tests/engine/test_parity.py checks that each replay agrees; this test checks how the traces are read and
    counted."""
    monkeypatch.setattr("mini_vllm_labs.cli.parity.load", cache(load))
    monkeypatch.setattr(verdict, "compare", lambda *_: None)
    monkeypatch.setattr(verdict, "run_free_of_defects", lambda *_: None)
    shown = mini_vllm("parity").output
    for text in (
        "vLLM 0.13.0: 863 of 863 traces in scope",
        "167 more show a defect",
        "vLLM 0.33.0: 584 of 584 traces in scope",
        "239 more show a defect",
        "name: unreserved_prompts (212), stale_blocks (37), own_reservation (21), ghost_prefill (1)",
    ):
        assert text in " ".join(shown.split())
    assert "not compared" not in shown
    shown = mini_vllm("parity", "--lineup", "solution").output
    for text in (
        "364 of 364 traces in scope",
        "40 more show a defect",
        "109 traces, which need phase 7 (speculative decoding)",
        "257 traces, which need phase 8 (async scheduling)",
        "40 traces, which need phase 9 (structured output)",
        "140 traces, which need phase 11 (admission gates)",
        "80 traces, which need phase 12 (sliding windows)",
    ):
        assert text in shown


@pytest.mark.parametrize(
    ("field", "alter"),
    [
        ("scheduled", lambda step: step["scheduled"][0].update(n=99)),
        ("scheduled", lambda step: step["scheduled"][0]["blocks"].append(99)),
        ("free_after_schedule", lambda step: step.update(free_after_schedule=99)),
        ("evicted", lambda step: step.update(evicted=[7])),
        ("waiting_after", lambda step: step.update(waiting_after=["Z"])),
        ("preempted", lambda step: step.update(preempted=[["A", "A", 0]])),
        ("detail.free_queue", lambda step: step["detail"].update(free_queue=[3])),
    ],
)
def test_an_altered_copy_fails_and_names_step_and_field(
    mini_vllm: Commands, write: Write, field: str, alter: Callable[[dict[str, Any]], None]
) -> None:
    line = named("budget_cap")
    alter(line["trace"]["steps"][1])
    shown = mini_vllm("parity", write([line, named("slot_cap")]), exit_code=1).output
    assert f"budget_cap: differs first in step 1, field '{field}'" in shown
    assert "recorded" in shown
    assert "ours" in shown
    assert "slot_cap" not in shown


def test_only_the_entries_that_differ_are_shown(mini_vllm: Commands, write: Write) -> None:
    line = named("budget_cap")
    line["trace"]["steps"][1]["scheduled"][1]["n"] = 99
    shown = mini_vllm("parity", write([line]), exit_code=1).output
    assert ["entry 2" in shown, "n 99" in shown, "entry 1" in shown] == [True, True, False]


def test_a_file_with_nothing_in_scope_is_no_success(mini_vllm: Commands, write: Write) -> None:
    traces = write([named("async_placeholders")])
    shown = mini_vllm("parity", traces, "--lineup", "solution:1-7", exit_code=1).output
    assert "no trace in scope" in " ".join(shown.split())
    assert "phase 8 (async scheduling)" in shown


def test_an_empty_file_is_no_success_even_beside_a_good_one(mini_vllm: Commands, write: Write) -> None:
    assert "no traces at all" in mini_vllm("parity", NAMED, write([]), exit_code=1).output


def test_a_defect_is_counted_apart(mini_vllm: Commands, write: Write) -> None:
    shown = mini_vllm("parity", write([named("priority_victim_leaves_uncomputed_cached_blocks")])).output
    assert "0 of 0 traces in scope" in shown
    assert "1 more show a defect" in " ".join(shown.split())


def test_a_made_up_defect_does_not_excuse_a_difference(mini_vllm: Commands, write: Write) -> None:
    line = named("budget_cap") | {"defects": ["anything_goes"]}
    line["trace"]["steps"][0]["total"] = 99
    assert "field 'total'" in mini_vllm("parity", write([line]), exit_code=1).output


@pytest.mark.parametrize(
    "path", ["config", "trace", "requests", "events", "config.block_size", "config.spec", "requests.A", "trace.steps"]
)
def test_an_incomplete_scenario_exits_with_2(mini_vllm: Commands, write: Write, path: str) -> None:
    line = named("budget_cap")
    *within, key = path.split(".")
    del (line[within[0]] if within else line)[key]
    result = mini_vllm("parity", write([line]), exit_code=2)
    assert ("budget_cap" if within else f"{key} missing") in result.stderr
    assert "Traceback" not in result.output


def test_a_zipped_file_is_read_like_a_plain_one_unless_it_is_broken(mini_vllm: Commands, tmp_path: Path) -> None:
    file = tmp_path / "copy.jsonl.gz"
    file.write_bytes(gzip.compress(json.dumps(named("budget_cap")).encode()))
    assert "1 of 1 traces" in mini_vllm("parity", file).output
    for content in (b"\x1f\x8b\x08\x00broken", b"plain text"):
        file.write_bytes(content)
        mini_vllm("parity", file, exit_code=2)
    file.write_bytes((PUBLIC_TRACES / "random.jsonl.gz").read_bytes()[:5000])
    assert "cannot be unpacked" in mini_vllm("parity", file, exit_code=2).stderr


def test_text_that_is_no_trace_exits_with_2_and_names_the_line(mini_vllm: Commands, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(json.dumps(named("budget_cap")) + "\n{oops\n")
    assert "line 2" in mini_vllm("parity", file, exit_code=2).stderr
    file.write_bytes(b"\xff\xfe\x00")
    for path in (file, tmp_path, tmp_path / "none"):
        mini_vllm("parity", path, exit_code=2)


@pytest.mark.parametrize(
    ("name", "alter", "refused"),
    [
        ("budget_cap", lambda line: line["config"].update(version="0.40.0"), "field 'config.version' is '0.40.0'"),
        ("budget_cap", lambda line: line["config"].update(watermark=0.1), "field 'config.watermark' is unknown"),
        ("budget_cap", lambda line: line["events"].append({"step": 1, "pause": "all"}), "field 'events.pause'"),
        ("spec_preemption", lambda line: line["config"]["spec"].update(tree=2), "field 'config.spec.tree'"),
        ("budget_cap", lambda line: line["requests"]["A"].update(mood=1), "field 'requests.A.mood'"),
        ("budget_cap", lambda line: line["trace"]["steps"][1].update(swapped=[]), "field 'trace.steps.swapped'"),
    ],
)
def test_an_unknown_release_or_field_is_refused(
    mini_vllm: Commands, write: Write, name: str, alter: Callable[[dict[str, Any]], None], refused: str
) -> None:
    line = named(name)
    alter(line)
    file = write([named("slot_cap"), line])
    shown = mini_vllm("parity", file, exit_code=2).stderr
    for text in (str(file), "line 2", refused, "0.13.0, 0.33.0"):
        assert text in " ".join(shown.split())


def test_absent_phases_do_not_pass(mini_vllm: Commands) -> None:
    shown = mini_vllm("parity", NAMED, "--lineup", "solution:1-2", exit_code=2).output
    assert "nothing can be compared" in shown
    assert "this lineup lacks 3, 4 and 5" in " ".join(shown.split())


def raise_lost_block(*arguments: object, **named: object) -> None:
    raise KeyError("lost block")


def test_an_engine_that_raises_is_a_failure_with_its_message(
    mini_vllm: Commands, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PagedKVCacheManager, "free", raise_lost_block)
    shown = mini_vllm("parity", write([named("budget_cap")]), exit_code=1).output
    assert "the engine raised KeyError in step" in shown
    assert "of budget_cap: 'lost block'" in shown


def test_the_same_exception_in_every_trace_is_one_message(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PagedKVCacheManager, "allocate_slots", raise_lost_block)
    shown = mini_vllm("parity", NAMED, exit_code=1).output
    assert shown.count("Nothing could be compared") == shown.count("lost block") == 1


def test_many_differences_are_counted_by_field(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChunkedPrefillPolicy, "num_new_tokens", lambda self, request, computed, budget: min(1, budget))
    shown = mini_vllm("parity", NAMED, exit_code=1).output
    assert shown.count("differs first") == 3
    assert "more traces differ, first in: scheduled (" in " ".join(shown.split())
