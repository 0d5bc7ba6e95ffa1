"""Which known mistake a wrong answer comes from: the one that gives the same answers in many other cases, too."""

from collections.abc import Callable, Iterable
from typing import TypeVar

Case = TypeVar("Case")
Mistake = tuple[object, str, str]
"""The answer that a mistake gives to a case, the rule that it breaks, and a hint."""


def identified(
    failing: Case,
    others: Iterable[Case],
    ask: Callable[[Case], object],
    mistakes: Callable[[Case], Iterable[Mistake]],
) -> tuple[str, str] | None:
    """Return (rule, hint) of the only mistake that answers like the learner's code in every case, else None.

    `mistakes` yields the same mistakes in the same order for every case.
    """
    return the_one_left(failing, ask, mistakes, surviving([failing, *others], ask, mistakes))


def surviving(
    cases: Iterable[Case], ask: Callable[[Case], object], mistakes: Callable[[Case], Iterable[Mistake]]
) -> frozenset[int]:
    """Return the numbers of the mistakes that answer like the learner's code in every case; none if that raises."""
    left: frozenset[int] | None = None
    try:
        for case in cases:
            yours = ask(case)
            same = frozenset(number for number, (answer, _, _) in enumerate(mistakes(case)) if answer == yours)
            left = same if left is None else left & same
            if not left:
                break
    except Exception:
        return frozenset()
    return left or frozenset()


def the_one_left(
    failing: Case,
    ask: Callable[[Case], object],
    mistakes: Callable[[Case], Iterable[Mistake]],
    left: frozenset[int],
) -> tuple[str, str] | None:
    """Return (rule, hint) of the one mistake among those left that answers like the learner's code, else None."""
    told = list(mistakes(failing))
    found = {told[number][1:] for number in left & surviving([failing], ask, mistakes)}
    return found.pop() if len(found) == 1 else None
