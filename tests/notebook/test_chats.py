"""Chats with the embedded model in a notebook: answers, per-chat settings, and the layout of a step."""

import pytest

from mini_vllm import EngineConfig, SamplingParams
from mini_vllm_labs.fresh.jobs import ChatRun
from mini_vllm_labs.notebook import Lab, Notice, answers
from mini_vllm_labs.notebook.panels import require_result
from mini_vllm_labs.pictures.widgets import Player

QUESTIONS = ["Tell me a story about Mina and a kite.", "What is the capital of Norway?"]
CONFIG = EngineConfig(
    max_num_batched_tokens=24, long_prefill_token_threshold=16, max_model_len=128, block_size=8, num_gpu_blocks=17
)


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab(6, "solution")


@pytest.fixture(scope="module")
def chats(lab: Lab) -> ChatRun:
    return require_result(lab.chat(QUESTIONS, CONFIG, [SamplingParams(max_tokens=2), SamplingParams(max_tokens=12)]))


def test_answers_have_their_question_and_latency(chats: ChatRun) -> None:
    text = str(answers(chats))
    assert f"{QUESTIONS[1]}\n    The capital of Norway is Oslo." in text
    assert "(2 tokens, " in text
    assert "ms per token)" in text
    assert list(chats.token_ids) == QUESTIONS


def test_a_step_is_laid_out_as_it_was_computed(lab: Lab, chats: ChatRun) -> None:
    layout = require_result(lab.lay_out(chats, 1))
    blocks = dict(layout.block_tables)
    assert [line[1] for line in layout.rows] == ["A"] * 2 + ["B"] * 7
    assert [line[-1] for line in layout.rows] == ["", "yes", *[""] * 6, "yes"]
    for _, label, _, position, slot, block, place, _ in layout.rows:
        assert int(slot) == 8 * int(block) + int(place)
        assert [int(block), int(place)] == [blocks[label][int(position) // 8], int(position) % 8]
    assert "' Norway'" in repr(layout)
    assert "block table of B: [" in layout._repr_mimebundle_()["text/html"]


def test_a_step_is_played_token_by_token(lab: Lab, chats: ChatRun) -> None:
    """B's last token, the last in the row, reads all of its request's tokens up to and including itself."""
    player: Player = require_result(lab.watch_batch(chats, 1))
    assert len(player.pictures) == 9
    share = chats.recording.steps[1]["scheduled"][1]
    assert f"Reads {share['computed'] + share['n']} tokens of B" in player.pictures[8].sentence


def test_a_step_that_does_not_exist_is_refused_with_a_message(lab: Lab, chats: ChatRun) -> None:
    refused = lab.lay_out(chats, len(chats.recording.steps))
    assert isinstance(refused, Notice)
    assert f"step must be from 0 to {len(chats.recording.steps) - 1}" in refused.text


def test_a_notice_is_passed_on(lab: Lab) -> None:
    notice = Notice("missing", "phase 6")
    assert lab.lay_out(notice, 0) is notice
    assert lab.watch_batch(notice, 0) is notice
    assert answers(notice) is notice
