"""Drafts and a step in flight on the command line."""

import re

import pytest

from tests.cli.conftest import Commands


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


def test_a_number_of_drafts_without_a_method_is_refused(mini_vllm: Commands) -> None:
    shown = mini_vllm("trace", "--num-speculative-tokens", "3", exit_code=2).output
    assert "num_speculative_tokens=3 needs --speculative-method: ngram or draft_model" in " ".join(shown.split())


def test_drafts_without_phase_7_are_refused(mini_vllm: Commands) -> None:
    shown = mini_vllm("trace", "--lineup", "solution:1-5", "--speculative-method", "ngram", exit_code=2).output
    assert "speculative_config needs phase 7" in " ".join(shown.split())
