"""Functions for the `<!-- check: ... -->` comments in `docs/public_bugs.md`."""

from unittest.mock import patch

from mini_vllm_labs.grading.plays.support import make_request
from solutions import phase4_prefix_cache as phase4
from tests.engine.test_public_bugs import BUGS
from tests.handouts.checks.recorded import all_recorded


def num_hashes(num_tokens: int, num_lookups: int) -> int:
    """Return how many blocks are hashed while a waiting prompt is looked up this many times."""
    request, cache = make_request("A", num_tokens), phase4.HashPrefixCache(16)
    with patch.object(phase4, "hash_block", side_effect=phase4.hash_block) as hashed:
        for _ in range(num_lookups):
            cache.find_longest_cache_hit(request)
    return hashed.call_count


def num_bugs() -> int:
    return len(BUGS)


def num_traces(defect: str) -> int:
    """Return how many recorded traces name a defect."""
    return sum(defect in one.defects for one in all_recorded())


def num_alone(defect: str) -> int:
    """Return how many traces name this defect and no other."""
    return sum(one.defects == [defect] for one in all_recorded())
