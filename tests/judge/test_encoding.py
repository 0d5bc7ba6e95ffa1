"""What a worker may send: plain values come back as they were, and what is too deep, too long or unknown is refused."""

from typing import Any, NoReturn

import pytest

from classroom.judge.play import MAX_ITEMS, bounded
from classroom.worker.encoding import DEEPEST, LARGEST
from classroom.worker.states import ProtocolError
from classroom.worker.text import MAX_TEXT, one_line, printable
from classroom.worker.values import Values
from mini_vllm import SamplingParams
from mini_vllm.core.step import Preempted


def nothing(*arguments: object) -> NoReturn:
    raise AssertionError("no object is exported here")


def one_end() -> Values:
    return Values(0, (), nothing, nothing)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -3,
        2.5,
        "text",
        b"\x00\xff",
        (1, [2, "x"]),
        {1: "a", (2, 3): [None]},
        SamplingParams(max_tokens=3),
        Preempted("a", "b", 4),
        LARGEST - 1,
        "x" * MAX_TEXT,
        bytes(MAX_TEXT // 2),
        nested(DEEPEST),
    ],
    ids=lambda value: f"{type(value).__name__} {str(value)[:20]}",
)
def test_a_plain_value_arrives_as_it_was_sent(value: object) -> None:
    assert one_end().decode(one_end().encode(value)) == value


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (nested(DEEPEST + 1), f"nested more than {DEEPEST} deep"),
        ({"t": [nested(DEEPEST)]}, f"nested more than {DEEPEST} deep"),
        ("x" * (MAX_TEXT + 1), "a text of 4,001 characters; at most 4,000"),
        ({"b": "00" * (MAX_TEXT // 2 + 1)}, "2,001 bytes; at most 2,000"),
        (LARGEST, "a number is out of range"),
        ([-LARGEST], "a number is out of range"),
        ({"t": [], "d": []}, "several kinds"),
        ({"z": 1}, "no value has the kind 'z'"),
        ({"d": [[[], 1]]}, "a value of kind 'd' is broken: unhashable"),
        ({"r": 5}, "a value of kind 'r' is broken"),
        ({"b": "no hex"}, "a value of kind 'b' is broken"),
    ],
)
def test_what_is_no_plain_value_is_refused_with_the_reason(sent: Any, reason: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        one_end().decode(sent)
    assert reason in str(refused.value)


def test_text_is_printable_once_it_has_arrived() -> None:
    assert one_end().decode("a\x1b[2J\ud800\u202eb\nc") == "a?[2J??b\nc"


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
