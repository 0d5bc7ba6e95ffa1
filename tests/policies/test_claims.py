"""Each claim points the way that it says, and the command prints it."""

import json

import pytest

from arena.claims import CLAIMS, Claim
from arena.loads import UnevenOutputs
from arena.own_answers import kendalls_tau
from mini_vllm import parse_lineup
from tests.cli.conftest import Commands

UNWRITTEN = "solution:1-5,starter:7"


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_a_claim_is_shown_or_said_not_to_be(claim: Claim) -> None:
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
