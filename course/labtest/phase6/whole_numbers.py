"""Results that must be integers, checked before anything is converted."""

from collections.abc import Iterable
from numbers import Integral

from course.labtest.expect import lab_failure

PLAIN = (
    "The results are plain integers (Python's or numpy's): the engine looks tokens up in a set of end tokens, where a "
    "tensor is never found, and indexes lists with them."
)


def whole_number(result: object, function: str, situation: str) -> int:
    """Return a result as an int; explain one that is no integer."""
    if not isinstance(result, Integral):
        lab_failure(
            rule=f"{function} returns a whole number.",
            situation=situation,
            expected="an integer",
            yours=f"{result!r}, a {type(result).__name__}",
            hint="which operation turns your integers into something else?",
        )
    return int(result)


def whole_numbers(result: object, function: str) -> list[int]:
    """Return a result as a list of ints, from any sequence of integers; explain a result that is none."""
    rule = f"{function} returns a list of whole numbers."
    if not isinstance(result, Iterable):
        lab_failure(
            rule=rule,
            situation="It returned something that cannot be read as a list.",
            expected="a list of integers",
            yours=repr(result),
            hint="does every path through your function end in a `return`?",
        )
    numbers: list[int] = []
    for number in result:
        if not isinstance(number, Integral):
            lab_failure(
                rule=rule,
                situation=PLAIN,
                expected="a list of integers",
                yours=f"a {type(result).__name__} with {number!r}, a {type(number).__name__}",
                hint="where do your results become Python numbers? A tensor's `tolist()` converts all at once.",
            )
        numbers.append(int(number))
    return numbers
