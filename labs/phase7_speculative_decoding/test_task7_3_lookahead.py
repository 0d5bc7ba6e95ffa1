"""Graded tests of task 7.3: slots and hits for a drafter with a KV cache."""

from types import ModuleType

import pytest

from course.labtest.expect import expect_equal
from course.labtest.phase6.whole_numbers import whole_number, whole_numbers
from course.labtest.phase7.counters import drafted, scheduling_of
from course.labtest.support import fields_of
from mini_vllm.core.request import RequestStatus

WAITING, RUNNING, PREEMPTED = RequestStatus.WAITING, RequestStatus.RUNNING, RequestStatus.PREEMPTED


@pytest.mark.parametrize("status", [WAITING, RUNNING, PREEMPTED], ids=lambda status: status.name.lower())
@pytest.mark.parametrize("has_kv_cache", [True, False], ids=["with a KV cache", "without"])
@pytest.mark.parametrize("num_drafts", [1, 4])
def test_a_running_request_gets_slots_for_the_drafter(
    phase7: ModuleType, status: RequestStatus, has_kv_cache: bool, num_drafts: int
) -> None:
    expected = num_drafts if has_kv_cache and status is RUNNING else 0
    for drafts in ([5], [0, 6, 7], []):
        request = drafted(10, 0 if status is WAITING else 4, list(drafts), computed=13 if status is RUNNING else 0)
        request.status = status
        before = fields_of(request)
        scheduling = scheduling_of(phase7, num_drafts, has_kv_cache=has_kv_cache)
        situation = (
            f"{status.name} request with {len(drafts)} drafts; num_speculative_tokens={num_drafts}, the drafter has "
            f"{'a' if has_kv_cache else 'no'} KV cache"
        )
        yours = whole_number(scheduling.num_lookahead_tokens(request), "num_lookahead_tokens", situation)
        expect_equal(
            yours,
            expected,
            rule="A running request needs num_speculative_tokens slots more if the drafter has a KV cache, any other "
            "request none.",
            situation=situation,
            hint=hint_of_slots(status, yours, num_drafts, len(drafts), has_kv_cache=has_kv_cache),
        )
        expect_equal(
            fields_of(request),
            before,
            rule="num_lookahead_tokens returns a number and changes nothing.",
            situation=situation,
            hint="which line of yours assigns to the request?",
        )


def hint_of_slots(status: RequestStatus, yours: int, num_drafts: int, num_given: int, *, has_kv_cache: bool) -> str:
    """Return a question about the mistake that gives this number."""
    runs = status is RUNNING
    if yours == num_drafts + 3:
        return "another scheduling with other settings was made after this one. Where does each keep its own?"
    if yours == num_drafts and runs and not has_kv_cache:
        return "this drafter has no KV cache: what would it write into the slots?"
    if yours == num_drafts and has_kv_cache and not runs:
        return f"this request is {status.name}: after which step does it get its first drafts?"
    if yours == num_given > 0 and has_kv_cache and runs:
        return "the slots are for the drafts that come after this step: how many can that be at most?"
    return "who writes into the slots behind the scheduled tokens, and for which requests?"


@pytest.mark.parametrize("hit_blocks", [[3, 8, 5], [3, 8], [7], []], ids=lambda blocks: f"{len(blocks)} blocks")
def test_the_last_block_of_a_hit_is_no_use_to_a_drafter_with_a_cache(phase7: ModuleType, hit_blocks: list[int]) -> None:
    for has_kv_cache in (True, False):
        given = list(hit_blocks)
        scheduling = scheduling_of(phase7, has_kv_cache=has_kv_cache)
        yours = whole_numbers(scheduling.usable_hit_blocks(given), "usable_hit_blocks")
        situation = f"hit blocks {hit_blocks}; the drafter has {'a' if has_kv_cache else 'no'} KV cache"
        if not has_kv_cache:
            hint = "this drafter computes nothing: what could be missing in a block?"
        elif yours == hit_blocks[1:] != hit_blocks[:-1]:
            hint = "a drafter is behind at the end of the text: at which end of the list is that?"
        elif yours == hit_blocks:
            hint = "this drafter has K and V of its own in the blocks: of which block may it not have all of them?"
        else:
            hint = "which one block may lack K and V of the drafter, and how many are left?"
        expect_equal(
            yours,
            hit_blocks[:-1] if has_kv_cache else hit_blocks,
            rule="A drafter with a KV cache can use all blocks of a hit but the last; one without can use all.",
            situation=situation,
            hint=hint,
        )
        expect_equal(
            given,
            hit_blocks,
            rule="usable_hit_blocks returns blocks and leaves the list of the prefix cache as it is.",
            situation=f"{situation}\nthe list after your call",
            hint="which of your operations changes a list in place (pop, del)?",
        )
