"""Common mistakes, as learners make them: the first failure of the phase leads to the cause."""

import os

import pytest

from tests.grading.checkout import Checkout, solution
from tests.grading.forked import forked
from tests.grading.late_mistakes import LATE_MISTAKES
from tests.grading.mistakes import MORE_MISTAKES
from tests.grading.wrong_shapes import OURS
from tests.mutants.diffs import without_comments

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the tests run in forked processes")

MISTAKES = {
    "hit blocks that are filled again": (
        2,
        ("num_cached_blocks = num_computed_tokens //", "num_cached_blocks = request.num_computed_tokens //"),
        "your call counts 0 blocks as full before this step. A has a hit: does this step fill the hit blocks?",
    ),
    "full blocks counted from the beginning": (
        2,
        ("num_cached_blocks = num_computed_tokens // self.block_size", "num_cached_blocks = len(hit_blocks)"),
        "How many tokens were computed before it, and how many blocks do those fill?",
    ),
    "a commit of nothing": (
        2,
        ("if num_full_blocks > num_cached_blocks:", "if True:"),
        "no block became full in this call. What are the two numbers in yours",
    ),
    "free hits that are not needed memory": (
        2,
        ("num_needed + num_free_hits > self", "num_needed > self"),
        "Which blocks leave it in this call: only the new ones, or hit blocks too?",
    ),
    "the heap's list taken for a sorted one": (
        3,
        ("in sorted(self._heap))", "in self._heap)"),
        "popping gives the right order here, and going through the queue does not",
    ),
    "an update that begins at the first block again": (
        4,
        ("range(len(hashes) * size, request", "range(0, request"),
        "the first update made as many as it should: at which block does the second one begin?",
    ),
    "a lookup without the hashes": (
        4,
        ("        self.update_block_hashes(request)\n        max_num", "        max_num"),
        "how many hashes does this request have when you walk them",
    ),
    "a hash as text": (
        4,
        ("content).digest()", "content).hexdigest()"),
        "which method of a hashlib object returns the hash as bytes, and which one as text?",
    ),
    **MORE_MISTAKES,
    **LATE_MISTAKES,
}


def mistaken(name: str) -> tuple[int, str]:
    """Return the phase of a mistake, and the starter that has it."""
    phase, (right, wrong), _ = MISTAKES[name]
    text = without_comments(solution(phase))
    assert text.count(right) == 1
    return phase, text.replace(right, wrong)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The output with the first failure, for each mistake."""
    checkout = Checkout(tmp_path_factory.mktemp("course"))
    return dict(zip(MISTAKES, forked(checkout, [mistaken(name) for name in MISTAKES], "-x"), strict=True))


@pytest.mark.parametrize("name", MISTAKES)
def test_the_first_failure_leads_to_the_cause(name: str, outputs: dict[str, str]) -> None:
    assert MISTAKES[name][-1] in outputs[name], outputs[name]
    assert not OURS.search(outputs[name]), outputs[name]
