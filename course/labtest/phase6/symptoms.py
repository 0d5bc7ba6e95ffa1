"""Mistakes that show in the numbers: a better hint than the one of the test that met them.

Each symptom is looked for only after a test has failed.
"""

import math
from collections.abc import Mapping, Sequence

from mini_vllm.core.step import ScheduledRequest

NOWHERE = 1000
"""V of every slot that nobody has written."""

LOOKS_OUTSIDE = (
    f"there is some of the {NOWHERE} in it that lies where nobody wrote: does this token look into the null block, "
    "or behind the tokens of its request?"
)
SEES_NOTHING = (
    "your token saw no key at all. In a mask of booleans, is True what may be seen or what is hidden? And does a token "
    "see itself?"
)
ANOTHER_HEAD = (
    "your number is what K/V head {head} holds. Which one does this query head read (rule 7), and which of your "
    "dimensions are heads, which are tokens?"
)
ANOTHER_END = "your number is the average over the first {seen} of its request's tokens. How many may it see?"


def symptom_of_flat(
    batch: Sequence[ScheduledRequest], yours: Sequence[Sequence[int]], expected: Sequence[Sequence[int]]
) -> str:
    """Return a hint for a wrong (input_ids, positions, query_start_loc), or an empty text."""
    if list(yours[:2]) == list(expected[:2]) and len(yours[2]) != len(expected[2]):
        return "query_start_loc has one entry more than there are requests. Where does the last one's part end?"
    if yours[1] and yours[1][0] == batch[0].num_computed_tokens + batch[0].num_scheduled_tokens:
        return (
            "your first position lies behind the tokens of this step. Whose num_computed_tokens is that: the row's, or "
            "the request's own, which advanced when the step was planned?"
        )
    return ""


def symptom_of_average(
    yours: Sequence[float], position: int, kv_head: int, averages: Mapping[tuple[int, int], float]
) -> str:
    """Return a hint for what a token got if all K are 0, or an empty text.

    `averages[head, n]` is what K/V head `head` gives to who sees the first n tokens of the request.
    """
    number = yours[0]
    if not math.isfinite(number) or number == 0:
        return SEES_NOTHING
    alike = [(head, seen) for (head, seen), average in averages.items() if math.isclose(number, average, abs_tol=1e-3)]
    if any(head != kv_head and seen == position + 1 for head, seen in alike):
        return ANOTHER_HEAD.format(head=next(head for head, seen in alike if head != kv_head and seen == position + 1))
    if [head for head, _ in alike] == [kv_head]:
        return ANOTHER_END.format(seen=alike[0][1])
    return LOOKS_OUTSIDE if number > max(averages.values()) + 1 else ""
