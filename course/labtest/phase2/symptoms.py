"""Mistakes that show in the calls of the prefix cache: a better rule and hint than the one of the test.

They are looked for only after a test has failed.
"""

import re
from collections.abc import Sequence

COMMIT = re.compile(r"cache_full_blocks\((?P<who>\w+), \[.*\], (?P<before>-?\d+), (?P<after>-?\d+)\)")
RULE = "The prefix cache is told of the blocks that this step fills, from full before to full after, and of no other."


def symptom_of_commits(expected: Sequence[str], yours: Sequence[str]) -> tuple[str, str]:
    """Return (rule, hint) if the calls differ in `cache_full_blocks` only, else empty texts."""
    ours, theirs = _commits(expected), _commits(yours)
    if [call for call in expected if not COMMIT.match(call)] != [call for call in yours if not COMMIT.match(call)]:
        return "", ""
    if theirs and not ours:
        return RULE, "no block became full in this call. What are the two numbers in yours, and what lies between them?"
    if len(theirs) != len(ours) or not ours:
        return "", ""
    if theirs[0]["before"] != ours[0]["before"] and theirs[0]["after"] == ours[0]["after"]:
        question = f"your call says that {theirs[0]['before']} blocks were full before this step"
        hits = next((call for call in expected if call.startswith("pin(") and "[]" not in call), "")
        if hits:
            return RULE, f"{question}. {ours[0]['who']} comes with a hit: does this step fill the hit blocks?"
        return RULE, f"{question}. How many tokens were computed before it, and how many blocks do those fill?"
    return "", ""


def _commits(calls: Sequence[str]) -> list[re.Match[str]]:
    return [found for call in calls if (found := COMMIT.match(call))]
