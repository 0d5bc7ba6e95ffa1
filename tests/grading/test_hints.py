"""Mistakes that can be told apart by the exception or comparison itself: the first failure leads to the cause.

The hints for all other mistakes are recorded: `tests/mutants/test_hints.py`.
"""

import os

import pytest

from tests.grading.checkout import Checkout, solution
from tests.grading.forked import OURS, forked
from tests.mutants.diffs import without_comments

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the tests run in forked processes")

RANK = "request.priority, request.arrival_time, request.request_id"
WRITE = "    key_cache.flatten(0, 1).index_copy_(0, slot_mapping, key)\n"
MISTAKES = {
    "free hits that are not needed memory": (
        2,
        ("num_needed + num_free_hits > self", "num_needed > self"),
        "Which blocks leave the queue: new blocks, hit blocks, or others as well?",
    ),
    "entries that compare requests": (
        3,
        (f"({RANK}, request)", "(request.priority, request.arrival_time, request)"),
        "Which of their fields determines the order of these two, and where is it in your entry?",
    ),
    "token ids as single bytes": (
        4,
        ('array("q", token_ids).tobytes()', "bytes(token_ids)"),
        "a token id may be larger than 255 or 65535. How many bytes does your code use for each token id?",
    ),
    "a slot taken for a block": (
        6,
        (WRITE, "    key_cache[slot_mapping] = key[:, None]\n"),
        "slots are numbered across all blocks. Which block is this slot in",
    ),
}


def mistaken(name: str) -> tuple[int, str]:
    phase, (right, wrong), _ = MISTAKES[name]
    text = without_comments(solution(phase))
    assert text.count(right) == 1
    return phase, text.replace(right, wrong)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    checkout = Checkout(tmp_path_factory.mktemp("course"))
    return dict(zip(MISTAKES, forked(checkout, [mistaken(name) for name in MISTAKES], "-x"), strict=True))


@pytest.mark.parametrize("name", MISTAKES)
def test_the_first_failure_leads_to_the_cause(name: str, outputs: dict[str, str]) -> None:
    assert MISTAKES[name][-1] in outputs[name], outputs[name]
    assert not OURS.search(outputs[name]), outputs[name]
