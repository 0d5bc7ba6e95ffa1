"""`mini-vllm bench async`: both ways say the same, and the figures are those of the run."""

import json

import pytest

from tests.cli.conftest import Commands


def test_both_ways_say_the_same_and_the_passes_are_counted(mini_vllm: Commands) -> None:
    record = json.loads(mini_vllm("bench", "async", "--quick", "--json", "--threads", 1).stdout)
    assert record["lineup"] == "solution:1-6,solution:8"
    assert [case["batch_size"] for case in record["cases"]] == [1, 4]
    for case in record["cases"]:
        in_turn, overlapped = case["timed"]["in turn"], case["timed"]["overlapped"]
        assert case["same_tokens"]
        assert in_turn["num_passes"] == overlapped["num_passes"] == 96
        for timed in (in_turn, overlapped):
            assert 0 < timed["forward_seconds"] < timed["span_seconds"] < timed["seconds"]


def test_the_gaps_and_the_reason_are_shown(mini_vllm: Commands) -> None:
    shown = " ".join(mini_vllm("bench", "async", "--quick", "--threads", 1).output.split())
    assert "8 async scheduling: reference" in shown
    assert shown.count("ms between two passes") == 4
    assert "Python runs one thread at a time" in shown
    assert "The tokens differ" not in shown


def test_a_lineup_without_phase_8_is_refused(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_IMPL", "solution:1-7")
    shown = mini_vllm("bench", "async", exit_code=2).output
    assert "needs phases 6 and 8" in " ".join(shown.split())
