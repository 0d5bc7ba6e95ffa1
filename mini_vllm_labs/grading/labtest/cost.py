"""Checks of what a call costs and what it leaves behind."""

from collections.abc import Callable
from types import ModuleType

from mini_vllm.core.request import Request
from mini_vllm_labs.grading.labtest.expect import expect_equal
from mini_vllm_labs.grading.labtest.work import LONG, NUM_REQUESTS, ROOM, SHORT, left_behind


def check_constant_work(work_with: Callable[[int], int], call: str, things: str, rule: str, hint: str) -> None:
    """Check that a call does no more work where there are many things, such as free blocks, than where there are few.

    `work_with` makes the call anew with a number of things. Of two large numbers the better one counts: a dict or a
    list that grows copies itself now and then, and may do so.
    """
    few, many = work_with(SHORT), min(work_with(LONG + extra) for extra in (0, 150))
    expect_equal(
        {f"does more with many {things}": many > 2 * few + ROOM},
        {f"does more with many {things}": False},
        rule=rule,
        situation=[
            f"{call} with {SHORT} {things}, and with {LONG}",
            f"lines run, blocks looked at and lists copied: {few} with {SHORT}, {many} with {LONG}",
        ],
        hint=hint,
    )


def check_keeps_nothing(
    phase: ModuleType, use: Callable[[str], Request | None], *objects: object, what: str, rule: str, hint: str
) -> None:
    """Check that requests which come and go leave no entries in the objects, or in anything global of the phase.

    `use` is given the id of a request that comes and goes. If it returns it, nothing may refer to it then.
    """
    expect_equal(
        left_behind(phase, use, *objects),
        {"entries left by them": 0, "references to them": 0},
        rule=rule,
        situation=f"{NUM_REQUESTS} {what}, after as many before; counted: entries of all lists, dicts and sets,\n"
        "and what still refers to one of the requests",
        hint=hint,
    )
