"""Mistakes that show in the values compared: a better rule and hint than those of the test.

They are looked for only after a test has failed.
"""

import re
from collections.abc import Collection, Mapping, Sequence

BLOCK_ITSELF = "a KVCacheBlock"
COMMIT = re.compile(r"cache_full_blocks\((?P<name>\w+), \[.*\], (?P<before>-?\d+), (?P<after>-?\d+)\)")
COMMIT_RULE = (
    "The prefix cache is given the blocks that become full in this call, from full before to full after, and no other."
)
SENTINEL_RULE = "A sentinel is never handed out and never listed: it marks an end of the queue and has no memory."
SENTINEL_HINT = "an id below 0 is the id of a sentinel: at which block do you stop?"
ORDER_RULE = (
    "The order of an allocation: pin the hit blocks (also when there are none), take the new blocks from the front of "
    "the queue, evicting each, then give the full blocks to the prefix cache."
)
TAKE_RULE = (
    "Blocks to take: all tokens that are computed, hit, new or lookahead, divided by block_size and rounded up, minus "
    "the blocks that the request holds or hits. Below 0 means none."
)
HOLDERS_RULE = (
    "Each hit block gets one holder at an admission: `pin` calls `touch` of your pool for it, and your code does not."
)
HELD_RULE = "ref_counts lists the blocks that a request holds, and no other block."
COUNT_RULE = "num_free_blocks is the number of blocks in the queue, after every call."
COUNT_HINT = "the right blocks are in the queue. Which of the calls above must change num_free_blocks, and by how much?"
EVICT_RULE = "The prefix cache knows blocks by their ids, which are numbers."
EVICT_HINT = "your code calls evict with a KVCacheBlock. Which attribute of it is the id?"
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


def symptom_of_number(expected: object, yours: object, question: str) -> tuple[str, str]:
    """Return (rule, hint) if `allocate_slots` took another number of blocks than it should, else empty texts."""
    if not isinstance(expected, list) or not isinstance(yours, list) or len(expected) == len(yours):
        return "", ""
    return TAKE_RULE, f"{question} Your code took {len(yours)}."


def symptom_of_holders(expected: Mapping[int, int], yours: Mapping[int, int], hits: Collection[int]) -> tuple[str, str]:
    """Return (rule, hint) if blocks without a holder are listed, or if hit blocks have one holder too many."""
    if {block_id: count for block_id, count in yours.items() if count} == expected != yours:
        return HELD_RULE, "your dict has blocks with 0 holders. Which blocks are not to be listed?"
    if hits and yours == {block_id: count + (block_id in hits) for block_id, count in expected.items()}:
        return HOLDERS_RULE, f"the blocks {sorted(hits)} were hit, and each has one holder too many. What added it?"
    return "", ""


def symptom_of_calls(expected: Sequence[str], yours: Sequence[str]) -> tuple[str, str]:
    """Return (rule, hint) if the calls differ in their order or in `cache_full_blocks` only, else empty texts."""
    if BLOCK_ITSELF in "".join(yours):
        return EVICT_RULE, EVICT_HINT
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
            return COMMIT_RULE, f"{question}. {ours[0]['name']} has a hit: does this step fill the hit blocks?"
        return COMMIT_RULE, f"{question}. How many tokens were computed before it, and how many blocks do those fill?"
    return "", ""


def _commits(calls: Sequence[str]) -> list[re.Match[str]]:
    return [found for call in calls if (found := COMMIT.match(call))]
