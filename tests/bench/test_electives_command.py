"""`mini-vllm bench speculative`, `async`, `sampling`: no setting changes a token, the figures are those of the run."""

import json

import pytest

from tests.cli.conftest import Commands

QUICK = ("--quick", "--threads", 1)


def test_drafts_save_steps_and_change_no_token(mini_vllm: Commands) -> None:
    record = json.loads(mini_vllm("bench", "speculative", *QUICK, "--json").stdout)
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


def test_a_step_in_flight_changes_no_token_and_the_passes_are_counted(mini_vllm: Commands) -> None:
    record = json.loads(mini_vllm("bench", "async", *QUICK, "--json").stdout)
    assert record["lineup"] == "solution:1-6,solution:8"
    assert [case["batch_size"] for case in record["cases"]] == [1, 4]
    for case in record["cases"]:
        in_turn, overlapped = case["timed"]["in turn"], case["timed"]["overlapped"]
        assert case["same_tokens"]
        assert in_turn["num_passes"] == overlapped["num_passes"] == 96
        for timed in (in_turn, overlapped):
            assert 0 < timed["forward_seconds"] < timed["span_seconds"] < timed["seconds"]


@pytest.mark.parametrize(
    ("command", "counts"),
    [
        ("speculative", {"7 speculative decoding: reference": 1, "accepted by position": 12, "same draft model": 2}),
        ("async", {"8 async scheduling: reference": 1, "ms between two passes": 4, "Python runs one thread": 1}),
    ],
)
def test_the_bars_and_the_reason_are_shown(mini_vllm: Commands, command: str, counts: dict[str, int]) -> None:
    shown = " ".join(mini_vllm("bench", command, *QUICK).output.split())
    assert {text: shown.count(text) for text in counts} == counts
    assert "The tokens differ" not in shown


@pytest.mark.parametrize(
    ("command", "lab_impl", "reason"),
    [
        ("speculative", "solution", "lineup solution: drafts on the real model need phases 6 and 7"),
        ("speculative", "starter:1-6", "lineup starter: drafts on the real model need phases 6 and 7"),
        ("async", "solution:1-7", "a step of the real model in flight needs phases 6 and 8"),
    ],
)
def test_a_lineup_without_the_elective_is_refused(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch, command: str, lab_impl: str, reason: str
) -> None:
    monkeypatch.setenv("LAB_IMPL", lab_impl)
    assert reason in " ".join(mini_vllm("bench", command, exit_code=2).output.split())


def test_sampling_is_measured_beside_greedy_text(mini_vllm: Commands) -> None:
    record = json.loads(mini_vllm("bench", "sampling", *QUICK, "--json").stdout)
    assert record["lineup"] == "solution:1-6,solution:9"
    assert [case["batch_size"] for case in record["cases"]] == [1, 4, 16]
    assert [len(case["mask_shares"]) for case in record["cases"]] == [0, 0, 3]
    assert all(0 < share < 0.7 for share in record["cases"][2]["mask_shares"].values())
    for case in record["cases"]:
        assert list(case["rates"]) == ["greedy", "temperature 0.8", "0.8 with two cuts", "under a regex"]
        assert all(len(rates) == 1 and rates[0] > 0 for rates in case["rates"].values())
    shown = mini_vllm("bench", "sampling", *QUICK).stdout
    assert shown.count("temperature 0.8") == 3
    assert shown.count("% of the time") == 3
    assert "100%" in shown
