"""Which known mistake a wrong answer comes from: the one that gives the same answers in many other cases, too."""

from collections.abc import Callable, Iterable, Sequence
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
    told: Sequence[Mistake] = list(mistakes(failing))
    left = set(range(len(told)))
    try:
        for case in [failing, *others]:
            yours = ask(case)
            left &= {number for number, (answer, _, _) in enumerate(mistakes(case)) if answer == yours}
    except Exception:
        return None
    found = {told[number][1:] for number in left}
    return found.pop() if len(found) == 1 else None
