"""Checks results that must be integers before converting them, with a question for each wrong type."""

from collections.abc import Iterable, Sequence
from numbers import Integral, Number
from typing import NoReturn

from mini_vllm_labs.grading.labtest.expect import lab_failure

PLAIN = (
    "The results are plain integers (Python's or numpy's): the engine looks tokens up in a set of end tokens, where a "
    "tensor is never found, and indexes lists with them."
)


def whole_numbers(result: object, function: str) -> list[int]:
    """Convert any sequence of integers to a list of ints; fail with an explanation for other results."""
    if not isinstance(result, Iterable):
        situation = "It returned something that cannot be read as a list."
        _no_list(function, situation, repr(result), "does every path through your function end in a `return`?")
    numbers: list[int] = []
    for number in result:
        if not isinstance(number, Integral):
            yours = f"a {type(result).__name__} with {number!r}, a {type(number).__name__}"
            hint = "where do your results become Python numbers? A tensor's `tolist()` converts all at once."
            _no_list(function, PLAIN, yours, hint)
        numbers.append(int(number))
    return numbers


def list_of(answer: object, function: str) -> list[int]:
    """Return the integers of a list; fail with an explanation for a single number or nested lists."""
    if isinstance(answer, Number):
        hint = "is this number a count, an index or an id, and which list does the task require?"
        _no_list(function, "It returned one number.", repr(answer), hint)
    if isinstance(answer, Sequence) and any(isinstance(entry, list | tuple | range) for entry in answer):
        hint = "what does `append` do with a list, and what do `extend` and `+=` do?"
        _no_list(function, "It returned a list that holds lists.", repr(answer), hint)
    return whole_numbers(answer, function)


def _no_list(function: str, situation: str, yours: str, hint: str) -> NoReturn:
    rule = f"{function} returns a list of integers."
    lab_failure(rule=rule, situation=situation, expected="a list of integers", yours=yours, hint=hint)
