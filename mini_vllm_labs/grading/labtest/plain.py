"""What an answer is, as plain JSON: whole numbers of any kind as numbers, all else by the name of its kind."""

from numbers import Integral
from typing import Any


def number(answer: object) -> object:
    """Return a whole number, or what an answer is instead."""
    if isinstance(answer, Integral):
        return int(answer)
    return "None" if answer is None else f"{answer}, a float" if isinstance(answer, float) else type(answer).__name__


def numbers(answer: Any) -> object:
    """Return a copy of the numbers of a list, or what stands in its place."""
    return [*map(number, answer)] if is_list(answer) else number(answer)


def is_list(answer: object) -> bool:
    """Return whether an answer is a list, a tuple or an array. What cannot be read twice is none."""
    return hasattr(answer, "__len__") and hasattr(answer, "__getitem__") and not isinstance(answer, dict | str)
