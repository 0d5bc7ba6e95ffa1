"""Mistakes that show in the values compared: a better rule and hint than those of the test.

They are looked for only after a test has failed.
"""

import re
from collections.abc import Sequence

COMMIT = re.compile(r"cache_full_blocks\((?P<who>\w+), \[.*\], (?P<before>-?\d+), (?P<after>-?\d+)\)")
COMMIT_RULE = (
    "The prefix cache is given the blocks that become full in this call, from full before to full after, and no other."
)
SENTINEL_RULE = "A sentinel is never handed out and never listed: it marks an end of the queue and has no memory."
SENTINEL_HINT = "an id below 0 is the id of a sentinel: at which block do you stop?"
ORDER_RULE = (
    "The order of an allocation: pin the hit blocks (also when there are none), take the new blocks from the front of "
    "the queue, evicting each, then give the full blocks to the prefix cache."
)
ANSWER_RULE = "An empty list is a success without new blocks; None is a refusal. The caller tells them apart."


def symptom_of_answer(expected: object, yours: object) -> tuple[str, str]:
    """Return (rule, hint) if `allocate_slots` mixed up the empty list and None, else empty texts."""
    if expected == [] and yours is None:
        return (
            ANSWER_RULE,
            "no new block is needed here: which of your lines returns None for that, or returns nothing?",
        )
    if expected is None and yours == []:
        return ANSWER_RULE, "memory is short here: what does your code return for a refusal?"
    return "", ""


def symptom_of_calls(expected: Sequence[str], yours: Sequence[str]) -> tuple[str, str]:
    """Return (rule, hint) if the calls differ in their order or in `cache_full_blocks` only, else empty texts."""
    if sorted(expected) == sorted(yours):
        return ORDER_RULE, "your calls are the right ones. What can go wrong in the order in which you make them?"
    ours, theirs = _commits(expected), _commits(yours)
    if [call for call in expected if not COMMIT.match(call)] != [call for call in yours if not COMMIT.match(call)]:
        return "", ""
    if theirs and not ours:
        return (
            COMMIT_RULE,
            "no block became full in this call. What are the two numbers in yours, and what lies between them?",
        )
    if len(theirs) != len(ours) or not ours:
        return "", ""
    if theirs[0]["before"] != ours[0]["before"] and theirs[0]["after"] == ours[0]["after"]:
        question = f"your call counts {theirs[0]['before']} blocks as full before this step"
        hits = next((call for call in expected if call.startswith("pin(") and "[]" not in call), "")
        if hits:
            return COMMIT_RULE, f"{question}. {ours[0]['who']} has a hit: does this step fill the hit blocks?"
        return COMMIT_RULE, f"{question}. How many tokens were computed before it, and how many blocks do those fill?"
    return "", ""


def _commits(calls: Sequence[str]) -> list[re.Match[str]]:
    return [found for call in calls if (found := COMMIT.match(call))]
