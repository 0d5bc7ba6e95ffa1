"""With tokenizers of every kind and text in many scripts, streamed text is the tokenizer's text after the prompt."""

import time
from collections.abc import Sequence
from functools import cache
from threading import Thread

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.engine.detokenizer import IncrementalDetokenizer
from mini_vllm.runner.model_tokenizer import ModelTokenizer
from tests.model.vocabularies import KINDS, tokenizer_of

SCRIPTS = (
    *("ሰላም ሰ", "สวัสดีครับ", "မင်္ဂလာပါ", "𠀀龘靐齉", "👩‍👩‍👧‍👦🏳️‍🌈", "नमस्ते", "שלום", "한국어", "你好"),
    *("don't go", "\n\n  x", "é ü Å", "a\u0301", "\ufffd"),
)
TEXTS = st.lists(st.tuples(st.sampled_from(SCRIPTS), st.integers(0, 3), st.integers(1, 9)), max_size=7).map(
    lambda drawn: "".join(script[start : start + length] for script, start, length in drawn)
)
BYTE_FALLBACK = ("Llama 2", "Gemma", "Unigram with bytes")


def text_after(tokenizer: Tokenizer, prompt: list[int], answer: list[int]) -> str:
    """Return what an answer adds to the decoded prompt; a character split across the prompt's end is counted whole."""
    whole = tokenizer.decode(prompt + answer)
    for num_cut in range(min(4, len(prompt) + 1)):
        known = tokenizer.decode(prompt[: len(prompt) - num_cut])
        if num_cut == 3 or whole.startswith(known):
            break
    return whole.removeprefix(known)


def streamed(
    tokenizer: Tokenizer, prompt: list[int], answer: Sequence[int], stop: Sequence[str] = (), include: bool = False
) -> tuple[str, str | None]:
    text, shown, found = IncrementalDetokenizer(tokenizer, prompt, stop, include), "", None
    for token_id in answer:
        found = text.add([token_id])
        assert text.stable_text().startswith(shown), "shown text was taken back"
        shown = text.stable_text()
        if found is not None:
            break
    found = found or text.finish()
    text.finish()
    assert text.stable_text().startswith(shown)
    return text.stable_text(), found


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(text=TEXTS, cut=st.integers(0, 40), stops=st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4)), max_size=3))
@example("ሰላም ሰ", 10, [])
@example("ሰላም ሰ", 13, [(0, 1), (0, 2)])
@example("\n\n  x\ufffd한국어", 8, [])
def test_a_text_is_the_same_wherever_it_is_cut(kind: str, text: str, cut: int, stops: list[tuple[int, int]]) -> None:
    tokenizer = tokenizer_of(kind)
    token_ids = tokenizer.encode(text)
    prompt, answer = token_ids[:cut], token_ids[cut:]
    expected = text_after(tokenizer, prompt, answer)
    assert streamed(tokenizer, prompt, answer) == (expected, None)
    words = [word for start, length in stops if (word := expected[start : start + length])]
    ends = [(start + len(word), start, word) for word in words if (start := expected.find(word)) >= 0]
    end, start, found = min(ends, default=(len(expected), len(expected), None))
    assert streamed(tokenizer, prompt, answer, words) == (expected[:start], found)
    assert streamed(tokenizer, prompt, answer, words, include=True) == (expected[:end], found)


@cache
def byte_token(kind: str, byte: int) -> int:
    if kind in BYTE_FALLBACK:
        return int(tokenizer_of(kind).tokenizer.convert_tokens_to_ids(f"<0x{byte:02X}>"))
    return tokenizer_of(kind).token_bytes().index(bytes([byte]))


@pytest.mark.parametrize("kind", ["byte-level", *BYTE_FALLBACK])
def test_a_prompt_and_its_answer_may_hold_control_tokens_inside_a_run_of_bytes(kind: str) -> None:
    tokenizer = tokenizer_of(kind)
    first, second = ([byte_token(kind, byte) for byte in char.encode()] for char in "ሰም")
    end = min(tokenizer.eos_token_ids)
    assert streamed(tokenizer, [*first, end, end, *second[:1]], [end, *second[1:], end, *first]) == ("ምሰ", None)
    assert streamed(tokenizer, [*first, *[end] * 9], [*second, *[end] * 9, *first]) == ("ምሰ", None)
    garbage = [byte_token(kind, 0x80)] * 9
    assert streamed(tokenizer, [*garbage, *first], second) == ("ም", None)
    assert streamed(tokenizer, first, [*second, *garbage[:1], *tokenizer.encode("x")])[0].replace(" ", "") == "ም�x"


class CountingTokenizer(ModelTokenizer):
    """Counts the tokens that are decoded."""

    num_decoded = 0

    def decode(self, token_ids: Sequence[int]) -> str:
        self.num_decoded += len(token_ids)
        return super().decode(token_ids)


@pytest.mark.parametrize("kind", ["byte-level", *BYTE_FALLBACK])
@pytest.mark.parametrize(
    "spelled", [b"\x80" * 600, b"\xe1" * 600, "\ufffd".encode() * 200, b"\x80" * 10 + b"A" * 600, b""], ids=len
)
def test_tokens_that_become_no_character_are_streamed_at_a_bounded_cost(kind: str, spelled: bytes) -> None:
    plain = tokenizer_of(kind)
    end = min(plain.eos_token_ids)
    tokenizer = CountingTokenizer(plain.tokenizer, plain.eos_token_ids)
    answer = [byte_token(kind, byte) for byte in spelled] or [end] * 600
    prompt = tokenizer.encode("One day")
    whole = text_after(tokenizer, prompt, answer)
    tokenizer.num_decoded = 0
    text = IncrementalDetokenizer(tokenizer, prompt)
    for token_id in answer:
        text.add([token_id])
    assert len(whole) - len(text.text) <= 4
    text.finish()
    # With byte fallback, a single lone byte corrupts all bytes after it; our texts are correct again a few tokens
    # later.
    assert text.text == whole or (b"A" in spelled and len(text.text) == len(whole))
    assert tokenizer.num_decoded <= 120 * len(answer)


def test_other_threads_run_while_a_long_text_is_encoded() -> None:
    # tokenizers 0.23.3's `Tokenizer.encode` would block other threads (findings/tokenizers_encode_holds_the_gil.sh)
    tokenizer, num_turns = tokenizer_of("Qwen"), 0
    encoding = Thread(target=tokenizer.encode, args=(40_000 * "The kite of Mina flies. ",))
    encoding.start()
    while encoding.is_alive():
        time.sleep(0.001)
        num_turns += 1
    assert num_turns > 20
