"""A worker may send only plain values; values that are too deep or too long are refused."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy
import pytest

from mini_vllm.core.request import Request
from mini_vllm.core.step import Preempted
from mini_vllm_labs.classroom.judge.play import MAX_ITEMS, bounded
from mini_vllm_labs.classroom.judge.question import same
from mini_vllm_labs.classroom.worker.answers import MAX_DEPTH, MAX_INTEGER, AnswerError, Describer, checked
from mini_vllm_labs.classroom.worker.text import MAX_TEXT, one_line, printable
from mini_vllm_labs.runs.sandbox.errors import UnusableAnswerError


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def endless() -> Iterator[int]:
    return iter(count())


@pytest.mark.parametrize(
    ("value", "described"),
    [
        ((None, True, -3, 2.5, "text"), [None, True, -3, 2.5, "text"]),
        ({"b": 1, "a": (2,)}, {"b": 1, "a": [2]}),
        ({3: 4}, [[3, 4]]),
        ([b"x", b"y", b"x"], [0, 1, 0]),
        (Preempted("a", "b", 4), {"victim_id": "a", "cause_id": "b", "num_tokens_returned": 4}),
        (numpy.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        ([numpy.int64(5), numpy.bool_(True), float("nan")], [5, True, "nan"]),
        ((number for number in range(3)), [0, 1, 2]),
        ({3, 1, 2}, [1, 2, 3]),
    ],
)
def test_a_value_leaves_a_worker_as_json(value: object, described: object) -> None:
    assert checked(Describer()(value)) == described


@pytest.mark.parametrize("value", [object(), Describer, endless(), nested(MAX_DEPTH + 1)])
def test_what_is_no_plain_value_does_not_leave(value: object) -> None:
    with pytest.raises(UnusableAnswerError, match="Your code returned"):
        Describer()(value)


def test_a_request_is_told_from_a_copy() -> None:
    request, copy = Request("r", [1]), Request("r", [1])
    described = Describer(lambda one: 0 if one is request else -1)
    assert not same(described(request), described(copy))


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (nested(MAX_DEPTH + 1), f"nested more than {MAX_DEPTH} levels deep"),
        ({"t": [nested(MAX_DEPTH)]}, f"nested more than {MAX_DEPTH} levels deep"),
        ("x" * (MAX_TEXT + 1), "a text has 4,001 characters, but at most 4,000"),
        ({"x" * (MAX_TEXT + 1): 1}, "a text has 4,001 characters, but at most 4,000"),
        (MAX_INTEGER, "a number is out of range"),
        ([-MAX_INTEGER], "a number is out of range"),
        ([1, MAX_INTEGER], "a number is out of range"),
    ],
)
def test_what_is_too_much_is_refused_with_the_reason(sent: Any, reason: str) -> None:
    with pytest.raises(AnswerError) as refused:
        checked(sent)
    assert reason in str(refused.value)
    assert checked([MAX_INTEGER - 1, "x" * MAX_TEXT, nested(MAX_DEPTH - 1)])


@pytest.mark.parametrize(
    ("expected", "found", "is_right"),
    [
        (True, 1, True),
        (False, 0, True),
        (False, None, False),
        (True, "False; of a new policy: True", False),
        (0.5, 0.50001, True),
        (0.5, 0.51, False),
        (0.5, "0.5", False),
        (5, 5.0, False),
        ([1, 2], [1, 2, 3], False),
        ([1, 2], [2, 1], False),
        ([1, 2], [1, 2.0], False),
        ([1, 0], [True, False], True),
        ([1, 2], "12", False),
        ([True, 2], [7, 2], True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        ({"raises": "ValueError", "text": "ours"}, {"raises": "ValueError", "text": "theirs"}, True),
        ({"raises": "ValueError", "text": ""}, [], False),
        (None, 0, False),
    ],
)
def test_an_answer_is_right_if_it_says_the_same(expected: object, found: object, is_right: bool) -> None:
    assert same(expected, found) is is_right


def test_text_is_printable_once_it_has_arrived() -> None:
    assert checked("a\x1b[2J\ud800\u202eb\nc") == "a?[2J??b\nc"


def test_a_long_text_is_cut_and_says_so() -> None:
    assert printable("x" * (MAX_TEXT + 1)) == "x" * MAX_TEXT + " ..."
    assert printable("x" * MAX_TEXT) == "x" * MAX_TEXT
    assert one_line("a\nb" + "x" * 300, 5) == "a?bxx ..."


def test_the_steps_of_a_forged_trace_are_cut_to_what_a_reader_looks_at() -> None:
    endless = {"x" * 9_000 + str(n): [list(range(500)), ("y" * 500,)] for n in range(500)}
    cut = bounded(endless)
    assert len(cut) == 1, "the names are equal once they are cut"
    for name, (numbers, texts) in cut.items():
        assert (len(name), len(numbers), len(texts[0])) == (MAX_ITEMS + 4, MAX_ITEMS, MAX_ITEMS + 4)
    assert len(bounded({n: n for n in range(9_000)})) == MAX_ITEMS
    assert bounded({"id": "A", "n": 3, "blocks": (1, 2)}) == {"id": "A", "n": 3, "blocks": (1, 2)}
