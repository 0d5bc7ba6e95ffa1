"""`mini-vllm bench speculative`: every setting says the same, and the figures are those of the run."""

import json

import pytest

from tests.cli.conftest import Commands


def test_every_setting_says_the_same_and_drafts_save_steps(mini_vllm: Commands) -> None:
    record = json.loads(mini_vllm("bench", "speculative", "--quick", "--json", "--threads", 1).stdout)
    assert record["lineup"] == "solution:1-7"
    assert all(case["same_tokens"] for case in record["cases"])
    cases = {(case["workload"], case["batch_size"]): case["measured"] for case in record["cases"]}
    assert [batch_size for _, batch_size in cases] == [1, 4, 1, 4]
    for (workload, batch_size), measured in cases.items():
        assert len(measured) == (7 if batch_size == 1 else 4)
        assert len({measured[name]["num_tokens"] for name in ("no drafts", "4 drafts", "adaptive", "draft model")}) == 1
        drafted = measured["4 drafts"]
        assert 0 < sum(drafted["accepted_per_pos"]) < 4 * drafted["num_drafts"]
        if workload == "copies from its prompt":
            assert drafted["num_steps"] < measured["no drafts"]["num_steps"]


def test_the_bars_and_the_reason_are_shown(mini_vllm: Commands) -> None:
    shown = mini_vllm("bench", "speculative", "--quick", "--threads", 1).output
    assert "7 speculative decoding: reference" in shown
    assert shown.count("accepted by position") == 12
    assert shown.count("from the same draft model") == 2
    assert "The tokens differ" not in shown


def test_lab_impl_says_whose_code_is_measured(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_IMPL", "starter:1-6")
    shown = mini_vllm("bench", "speculative", exit_code=2).output
    assert "lineup starter: drafts on the real model need phases 6 and 7" in " ".join(shown.split())


def test_a_lineup_without_phase_7_is_refused(mini_vllm: Commands) -> None:
    shown = mini_vllm("bench", "speculative", "--lineup", "solution", exit_code=2).output
    assert "need phases 6 and 7" in " ".join(shown.split())
