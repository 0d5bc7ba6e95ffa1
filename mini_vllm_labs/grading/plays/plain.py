"""Describes answers as plain JSON: integers of any type as numbers, other values by the name of their type."""

from numbers import Integral
from typing import Any


def number(answer: object) -> object:
    """Return an integer, or describe the answer if it is something else."""
    if isinstance(answer, Integral):
        return int(answer)
    return "None" if answer is None else f"{answer}, a float" if isinstance(answer, float) else type(answer).__name__


def numbers(answer: Any) -> object:
    """Return a copy of the numbers in a list, or describe the answer if it is something else."""
    return [*map(number, answer)] if is_list(answer) else number(answer)


def is_list(answer: object) -> bool:
    """Return whether an answer is a list, a tuple or an array. Iterators do not count."""
    return hasattr(answer, "__len__") and hasattr(answer, "__getitem__") and not isinstance(answer, dict | str)
