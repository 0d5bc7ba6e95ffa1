"""Graded tests of task 7.3: slots and hits for a drafter with a KV cache."""

import random
from functools import partial
from types import ModuleType

import pytest

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import ScheduledRequest
from mini_vllm_labs.grading.labtest.cost import check_keeps_nothing
from mini_vllm_labs.grading.labtest.expect import Told, expect_equal, explained
from mini_vllm_labs.grading.labtest.moments import KEPT, NOTHING_KEPT, told_of_fields, told_of_memory, varied
from mini_vllm_labs.grading.labtest.phase7.counters import drafted, scheduling_of
from mini_vllm_labs.grading.labtest.support import fields_of
from mini_vllm_labs.grading.labtest.whole_numbers import list_of, number_of
from mini_vllm_labs.pictures.text import counted

RULE_OF_SLOTS = (
    "A running request needs num_speculative_tokens slots more if the drafter has a KV cache, any other request none."
)
RULE_OF_HITS = "A drafter with a KV cache can use all blocks of a hit but the last; one without can use all."
ALONE = "an object with these settings, made after all others"
KEEP = ("spec_token_ids",)
WAITING, RUNNING, PREEMPTED = RequestStatus.WAITING, RequestStatus.RUNNING, RequestStatus.PREEMPTED


@pytest.mark.parametrize("status", [WAITING, RUNNING, PREEMPTED], ids=lambda status: status.name.lower())
@pytest.mark.parametrize("has_kv_cache", [True, False], ids=["with a KV cache", "without"])
@pytest.mark.parametrize("num_drafts", [4, 1, 12])
def test_a_running_request_gets_slots_for_the_drafter(
    phase7: ModuleType, status: RequestStatus, has_kv_cache: bool, num_drafts: int
) -> None:
    expected = num_drafts if has_kv_cache and status is RUNNING else 0
    for drafts, computed in (([5], 13), ([0, 6, 7], 13), ([], 13), ([], 6)):
        request = drafted(10, 0 if status is WAITING else 4, list(drafts), computed=computed * (status is RUNNING))
        request.status = status
        request = varied(request, random.Random(computed), keep=("spec_token_ids",))
        before = fields_of(request)
        scheduling = scheduling_of(phase7, num_drafts, has_kv_cache=has_kv_cache)
        situation = (
            f"{status.name} request with {counted(len(drafts), 'draft')}, num_computed_tokens="
            f"{request.num_computed_tokens}; num_speculative_tokens={num_drafts}, the drafter has "
            f"{'a' if has_kv_cache else 'no'} KV cache"
        )
        with explained([situation], rule=RULE_OF_SLOTS):
            answer = scheduling.num_lookahead_tokens(request)
        yours = number_of(answer, "num_lookahead_tokens", situation)
        told: Told = {
            "rule": RULE_OF_SLOTS,
            "situation": situation,
            "hint": "your answer is a truth value, and True counts as 1. How many slots are needed?"
            if answer is True
            else hint_of_slots(request, yours, num_drafts, len(drafts), has_kv_cache=has_kv_cache),
        }
        if yours != expected:
            new = partial(phase7.SpeculativeScheduling, num_drafts, has_kv_cache)
            told = told_of_fields(told, [request], lambda one: new().num_lookahead_tokens(*one), expected, KEEP)  # noqa: B023
            told = told_of_memory(told, lambda: new().num_lookahead_tokens(request), expected, ALONE)  # noqa: B023
        expect_equal(yours, expected, **told)
        expect_equal(
            fields_of(request),
            before,
            rule="num_lookahead_tokens returns a number and changes nothing.",
            situation=situation,
            hint="which line of yours assigns to the request?",
        )


def hint_of_slots(request: Request, yours: int, num_drafts: int, num_given: int, *, has_kv_cache: bool) -> str:
    """Return a question about the mistake that gives this number."""
    runs = request.status is RUNNING
    if runs and not has_kv_cache:
        return "this drafter has no KV cache: what would it write into the slots?"
    if not runs:
        return (
            f"this request is {request.status.name}: in which step does it get drafts, and in which one slots for them?"
        )
    if yours and yours in (num_given, num_drafts - num_given):
        return "the slots are for the drafts that come after this step: how many can that be at most?"
    if yours:
        return f"the drafter guesses at most {num_drafts} after this step. Of what is your {yours} made?"
    if num_given:
        return "this request runs and its drafter has a KV cache. Which of your conditions is false here?"
    if request.num_computed_tokens < request.num_prompt_tokens:
        return "this request runs, and a part of its prompt is computed. Which of your conditions is false here?"
    return "this request has no drafts at the moment: does that say how many come after this step?"


def test_every_answer_is_about_the_moment(phase7: ModuleType) -> None:
    scheduling, hit_blocks = scheduling_of(phase7, 4, has_kv_cache=True), [3, 8, 5]
    yours, request = dict[str, object](), drafted(10, 4, [5], computed=13)
    for step, status in enumerate((WAITING, RUNNING, PREEMPTED, RUNNING)):
        request.status = status
        yours[f"{step}: the request is {status.name}"] = scheduling.num_lookahead_tokens(request)
        yours[f"{step}: hit blocks {hit_blocks}"] = list(scheduling.usable_hit_blocks(hit_blocks))
        hit_blocks.append(20 + step)
    expect_equal(
        yours,
        dict(zip(yours, (0, [3, 8], 4, [3, 8, 5], 0, [3, 8, 5, 20], 4, [3, 8, 5, 20, 21]), strict=True)),
        rule=f"{NOTHING_KEPT} {RULE_OF_SLOTS} {RULE_OF_HITS}",
        situation="one object with num_speculative_tokens=4 for a drafter with a KV cache; the same request and the "
        "same list of hits, which change between the calls",
        hint="would a new object answer the line that differs in the same way? If so, by what do you tell a request "
        "that runs, or the last block? If not, what is left of an earlier call?",
    )


def test_requests_leave_nothing_behind(phase7: ModuleType) -> None:
    scheduling = scheduling_of(phase7, 4, has_kv_cache=True)

    def use(name: str) -> None:
        request = drafted(3, 1, [5, 6], computed=6, name=name)
        scheduling.num_lookahead_tokens(request)
        scheduling.usable_hit_blocks([len(name), 3])
        scheduling.roll_back(request, len(scheduling.schedule_drafts(request)), 1)
        phase7.propose_by_lookup(request.all_token_ids, 2, 1, 3)
        phase7.accept_drafts([5, 6], [5, len(name), 7])
        phase7.select_logits_rows([ScheduledRequest(request, 3, 3, [1], needs_token=True, draft_token_ids=[5, 6])])

    check_keeps_nothing(
        phase7, use, scheduling, what="requests with drafts came and went", rule=NOTHING_KEPT, hint=KEPT
    )


@pytest.mark.parametrize(
    "hit_blocks", [[3, 8, 5], [3, 8], [7], [], [*range(40, 70), 5]], ids=lambda blocks: counted(len(blocks), "block")
)
def test_the_last_block_of_a_hit_is_no_use_to_a_drafter_with_a_cache(phase7: ModuleType, hit_blocks: list[int]) -> None:
    for has_kv_cache in (True, False):
        given = list(hit_blocks)
        scheduling = scheduling_of(phase7, has_kv_cache=has_kv_cache)
        situation = f"hit blocks {hit_blocks}; the drafter has {'a' if has_kv_cache else 'no'} KV cache"
        with explained([situation], rule=RULE_OF_HITS):
            answer = scheduling.usable_hit_blocks(given)
        yours = list_of(answer, "usable_hit_blocks")
        if not has_kv_cache:
            hint = "this drafter has no K and V of its own: what could be missing in a block?"
        elif yours == hit_blocks[1:] != hit_blocks[:-1]:
            hint = "a drafter is behind at the end of the text: at which end of the list is that?"
        elif yours == hit_blocks:
            hint = "this drafter has K and V of its own in the blocks: of which block may it not have all of them?"
        else:
            hint = "which one block may lack K and V of the drafter, and how many are left?"
        expected = hit_blocks[:-1] if has_kv_cache else hit_blocks
        told: Told = {"rule": RULE_OF_HITS, "situation": situation, "hint": hint}
        if yours != expected:
            new = partial(phase7.SpeculativeScheduling, 4, has_kv_cache)
            told = told_of_memory(told, lambda: list(new().usable_hit_blocks([*hit_blocks])), expected, ALONE)  # noqa: B023
        expect_equal(yours, expected, **told)
        expect_equal(
            given,
            hit_blocks,
            rule="usable_hit_blocks returns blocks and leaves the list of the prefix cache as it is.",
            situation=f"{situation}\nthe list after your call",
            hint="which of your operations changes a list in place (pop, del)?",
        )
