import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from course.parity.scenario import PUBLIC_TRACES
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


def test_the_public_traces_match(mini_vllm: Commands) -> None:
    shown = mini_vllm("parity").output
    assert "296 of 296 traces in scope" in shown
    assert "14 more show a defect" in shown
    assert "not compared" not in shown


def test_traces_of_electives_that_are_absent_are_counted(mini_vllm: Commands) -> None:
    shown = mini_vllm("parity", "--lineup", "solution").output
    assert "232 of 232 traces in scope" in shown
    assert "12 more show a defect" in shown
    assert "29 traces, which need phase 7 (speculative decoding)" in shown
    assert "37 traces, which need phase 8 (async scheduling)" in shown


def test_a_gzipped_copy_is_read_like_a_plain_one(mini_vllm: Commands, tmp_path: Path) -> None:
    file = tmp_path / "copy.jsonl.gz"
    file.write_bytes(gzip.compress(json.dumps(named("budget_cap")).encode()))
    assert "1 of 1 traces" in mini_vllm("parity", file).output


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
    assert "entry 2" in shown
    assert "n 99" in shown
    assert "entry 1" not in shown


def test_a_file_with_nothing_in_scope_is_no_success(mini_vllm: Commands, write: Write) -> None:
    traces = write([named("async_placeholders")])
    shown = mini_vllm("parity", traces, "--lineup", "solution:1-7", exit_code=1).output
    assert "no trace that is in scope" in " ".join(shown.split())
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


@pytest.mark.parametrize("missing", ["config", "trace", "requests", "events"])
def test_an_incomplete_scenario_exits_with_2(mini_vllm: Commands, write: Write, missing: str) -> None:
    line = named("budget_cap")
    del line[missing]
    assert missing in mini_vllm("parity", write([line]), exit_code=2).stderr


@pytest.mark.parametrize(
    ("where", "key"), [("config", "block_size"), ("config", "spec"), ("requests", "A"), ("trace", "steps")]
)
def test_missing_parts_inside_exit_with_2(mini_vllm: Commands, write: Write, where: str, key: str) -> None:
    line = named("budget_cap")
    del line[where][key]
    result = mini_vllm("parity", write([line]), exit_code=2)
    assert "budget_cap" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("content", [b"\x1f\x8b\x08\x00broken", b"", b"plain text"])
def test_a_broken_archive_exits_with_2(mini_vllm: Commands, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "broken.jsonl.gz"
    file.write_bytes(content)
    mini_vllm("parity", file, exit_code=2 if content else 1)


def test_a_cut_archive_exits_with_2(mini_vllm: Commands, tmp_path: Path) -> None:
    file = tmp_path / "cut.jsonl.gz"
    file.write_bytes((PUBLIC_TRACES / "random.jsonl.gz").read_bytes()[:5000])
    assert "cannot be unpacked" in mini_vllm("parity", file, exit_code=2).stderr


def test_text_that_is_no_trace_exits_with_2_and_names_the_line(mini_vllm: Commands, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(json.dumps(named("budget_cap")) + "\n{oops\n")
    assert "line 2" in mini_vllm("parity", file, exit_code=2).stderr
    file.write_bytes(b"\xff\xfe\x00")
    mini_vllm("parity", file, exit_code=2)
    mini_vllm("parity", tmp_path, exit_code=2)
    mini_vllm("parity", tmp_path / "none", exit_code=2)


def test_absent_phases_do_not_pass(mini_vllm: Commands) -> None:
    shown = mini_vllm("parity", NAMED, "--lineup", "solution:1-2", exit_code=2).output
    assert "nothing can be compared" in shown
    assert "absent here: 3, 4 and 5" in " ".join(shown.split())


def test_an_engine_that_raises_is_a_failure_with_its_message(
    mini_vllm: Commands, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from solutions.phase2_block_pool import PagedKVCacheManager

    def broken(self: object, request: object, num_computed_tokens: int) -> None:
        raise KeyError("lost block")

    monkeypatch.setattr(PagedKVCacheManager, "free", broken)
    shown = mini_vllm("parity", write([named("budget_cap")]), exit_code=1).output
    assert "the engine raised KeyError in step" in shown
    assert "of budget_cap: 'lost block'" in shown


def test_the_same_exception_in_every_trace_is_one_message(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    from solutions.phase2_block_pool import PagedKVCacheManager

    def broken(self: object, request: object, *arguments: object, **named: object) -> None:
        raise KeyError("lost block")

    monkeypatch.setattr(PagedKVCacheManager, "allocate_slots", broken)
    shown = mini_vllm("parity", NAMED, exit_code=1).output
    assert shown.count("Nothing could be compared") == 1
    assert shown.count("lost block") == 1


def test_many_differences_are_counted_by_field(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    from solutions.phase5_chunked_prefill import ChunkedPrefillPolicy

    def one_token(self: object, request: object, num_computed_tokens: int, token_budget: int) -> int:
        return min(1, token_budget)

    monkeypatch.setattr(ChunkedPrefillPolicy, "num_new_tokens", one_token)
    shown = mini_vllm("parity", NAMED, exit_code=1).output
    assert shown.count("differs first") == 3
    assert "more traces differ, first in: scheduled (" in " ".join(shown.split())
