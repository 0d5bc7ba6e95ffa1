"""Answers of the wrong kind, each with a question about that kind: a number for a list, lists in a list, no answer.

All others go on to the checks of phase 6.
"""

from collections.abc import Sequence
from numbers import Number

from course.labtest.expect import lab_failure
from course.labtest.phase6.whole_numbers import whole_number, whole_numbers


def list_of(answer: object, function: str) -> list[int]:
    """Return the integers of a list; explain a number in its place, and lists within it."""
    rule = f"{function} returns a list of whole numbers."
    if isinstance(answer, Number):
        lab_failure(
            rule=rule,
            situation="It returned one number.",
            expected="a list of integers",
            yours=repr(answer),
            hint="is this number a count, a place or an id, and which list is asked for?",
        )
    if isinstance(answer, Sequence) and any(isinstance(entry, list | tuple | range) for entry in answer):
        lab_failure(
            rule=rule,
            situation="It returned a list that holds lists.",
            expected="a list of integers",
            yours=repr(answer),
            hint="what does `append` do with a list, and what do `extend` and `+=` do?",
        )
    return whole_numbers(answer, function)


def number_of(answer: object, function: str, situation: str) -> int:
    """Return an integer; explain an answer that is missing."""
    if answer is None:
        lab_failure(
            rule=f"{function} returns a whole number.",
            situation=situation,
            expected="an integer",
            yours="None",
            hint="does every path through your function end in a `return`?",
        )
    return whole_number(answer, function, situation)
