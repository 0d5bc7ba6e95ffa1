"""The detokenizer never emits partial characters, never retracts text, and finds stop strings across tokens."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mini_vllm.core.tokenizer import ByteTokenizer
from mini_vllm.engine.detokenizer import IncrementalDetokenizer


def detokenizer(*stop: str, include: bool = False, prompt: bytes = b"") -> IncrementalDetokenizer:
    return IncrementalDetokenizer(ByteTokenizer(), list(prompt), stop, include)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(ends)]


def first_stop(text: str, stops: list[str], include: bool) -> tuple[str, str | None]:
    """Return the final text expected when `text` grows character by character, and the stop string that ended it."""
    for end in range(1, len(text) + 1):
        matches = [stop for stop in stops if text[:end].endswith(stop)]
        if matches:
            longest = max(matches, key=len)
            return (text[:end] if include else text[: end - len(longest)]), longest
    return text, None


@given(st.binary(max_size=40), st.lists(st.integers(0, 40)))
@example("né €\U0001f600!".encode(), [2, 5, 9])
@example(b"\xf0\x9f\x98", [1, 2])
@example(b"a\xff\xfe\xc3", [1, 2, 3])
@example("\ufffd".encode() * 3, [1, 2, 4])
def test_bytes_decode_to_the_same_text_however_they_are_split(data: bytes, cuts: list[int]) -> None:
    text = detokenizer()
    for piece in pieces(data, cuts):
        assert text.add(list(piece)) is None
        assert data.decode(errors="replace").startswith(text.stable_text())
    text.finish()
    assert text.text == data.decode(errors="replace")


@given(st.text(alphabet="né€\U0001f600", max_size=12), st.text(alphabet="né€\U0001f600", max_size=6))
def test_the_text_does_not_depend_on_the_prompt_before_it(prompt: str, answer: str) -> None:
    text = detokenizer(prompt=prompt.encode())
    for byte in answer.encode():
        text.add([byte])
    text.finish()
    assert text.text == answer


def test_a_partial_character_is_held_back_until_it_is_complete() -> None:
    text = detokenizer()
    shown = []
    for byte in "a€b".encode():
        text.add([byte])
        shown.append(text.stable_text())
    assert shown == ["a", "a", "a", "a€", "a€b"]


def test_of_several_stop_strings_in_one_piece_of_text_the_earliest_wins() -> None:
    """One token decodes to the whole text, so both stop strings appear at the same moment."""

    class WordTokenizer(ByteTokenizer):
        def decode(self, token_ids: object) -> str:
            return "".join("one two three "[:13] for _ in token_ids)  # type: ignore[attr-defined]

    text = IncrementalDetokenizer(WordTokenizer(), [], ("three", "two"))
    assert text.add([1]) == "two"
    assert text.text == "one "


def test_a_stop_string_that_only_the_flush_completes_is_found_too() -> None:
    text = detokenizer("b\ufffd")
    assert text.add(list(b"ab\xe2")) is None
    assert text.finish() == "b\ufffd"
    assert text.text == "a"


@given(
    st.text(alphabet="ab", max_size=16),
    st.lists(st.text(alphabet="ab", min_size=1, max_size=5), max_size=3, unique=True),
    st.booleans(),
)
@example("ab", ["bbbbb"], False)
def test_emitted_text_is_never_retracted_and_never_part_of_a_stop_string(
    text: str, stops: list[str], include: bool
) -> None:
    ours = detokenizer(*stops, include=include)
    truth, expected_stop = first_stop(text, stops, include)
    shown, found = "", None
    for byte in text.encode():
        found = ours.add([byte])
        assert ours.stable_text().startswith(shown), "emitted text was retracted"
        shown = ours.stable_text()
        assert truth.startswith(shown), "a part of the stop string was emitted"
        if found:
            break
    if found is None:
        found = ours.finish()
    assert (ours.text, ours.stable_text(), found) == (truth, truth, expected_stop)


def test_no_more_is_held_back_than_the_longest_stop_string_needs() -> None:
    text = detokenizer("xyz", "q")
    text.add(list(b"abcdef"))
    assert text.stable_text() == "abcd"
    text.finish()
    assert text.stable_text() == "abcdef"


def test_a_stop_string_in_the_prompt_stops_nothing() -> None:
    text = detokenizer("end", prompt=b"the en")
    assert [text.add([byte]) for byte in b"dend"] == [None, None, None, "end"]
    assert text.text == "d"


@pytest.mark.parametrize(("min_tokens", "stop", "text"), [(0, "st", "fa"), (4, "st", "fa"), (5, "st", "fast fa")])
def test_a_stop_string_that_is_complete_before_min_tokens_ends_nothing(min_tokens: int, stop: str, text: str) -> None:
    output = IncrementalDetokenizer(ByteTokenizer(), [], [stop], min_tokens=min_tokens)
    assert output.add(b"fast fast") == stop
    assert output.text == text
