"""Graded tests of task 3.3."""

from types import ModuleType

import pytest

from course.labtest.expect import alone, expect_equal, explained
from course.labtest.phase3.cases import waiter
from course.labtest.phase3.doubles import SharedBlocksKV
from course.labtest.phase3.room_harness import VICTIM_CHANGES, own_blocks
from course.labtest.strict_queue import StrictQueue
from course.labtest.support import fields_of, make_request
from mini_vllm.core.interfaces import RequestQueue
from mini_vllm.core.request import Request, RequestStatus


def check_preempt(
    phase3: ModuleType,
    request: Request,
    waiting: RequestQueue,
    rule: str,
    hint: str,
    *,
    blocks: list[int] | None = None,
    **expected: object,
) -> None:
    """Preempt and compare. The request holds `blocks`, or the blocks of its computed tokens."""
    kv = SharedBlocksKV(9, 4, {**own_blocks([request], 4), "Z": [9]})
    if blocks is not None:
        kv.tables[request.request_id] = blocks
    fields = fields_of(request)
    situation = [
        f"RUNNING {request.request_id}: {request.num_computed_tokens} of {request.num_tokens} tokens computed, "
        f"{request.num_output_tokens} of them outputs, preempted {request.num_preemptions}x so far",
        f"WAITING {', '.join(r.request_id for r in waiting) or 'empty'}",
        kv.describe(),
    ]
    with explained(situation, rule=rule):
        phase3.preempt(request, waiting, kv)
    outcome: dict[str, object] = {
        "status": request.status.name,
        "computed tokens": request.num_computed_tokens,
        "preemptions": request.num_preemptions,
        "drafts": request.spec_token_ids,
        "WAITING": [r.request_id if r is request or r.request_id != request.request_id else "a copy" for r in waiting],
        "kv calls": kv.calls,
        "blocks held": kv.tables.get(request.request_id, []),
        "also changed": [
            name for name, value in fields_of(request).items() if value != fields[name] and name not in VICTIM_CHANGES
        ],
    }
    wanted = {label.replace("_", " "): value for label, value in expected.items()} | {"also changed": []}
    yours = {label: outcome[label] for label in wanted}
    hint = alone(yours, wanted, labels=wanted) or hint
    expect_equal(yours, wanted, rule=rule, situation=situation, hint=hint)


def test_a_preempted_request_starts_again(phase3: ModuleType) -> None:
    request = make_request("A", 9, num_computed_tokens=11, num_output_tokens=3)
    request.spec_token_ids = [7, 8]
    check_preempt(
        phase3,
        request,
        StrictQueue([]),
        "A preempted request is PREEMPTED, has 0 computed tokens and no drafts, keeps its tokens, and counts one "
        "preemption more.",
        "status, computed tokens, preemptions, drafts, the place in WAITING: which of your lines changes which?",
        status="PREEMPTED",
        computed_tokens=0,
        preemptions=1,
        drafts=[],
        WAITING=["A"],
    )


def test_preemptions_add_up(phase3: ModuleType) -> None:
    request = make_request("A", 9, num_computed_tokens=4)
    request.num_preemptions, request.block_hashes = 2, [b"of its first block"]
    check_preempt(
        phase3,
        request,
        StrictQueue([]),
        "num_preemptions counts every time.",
        "it had been preempted 2 times before: which number does your code start from?",
        status="PREEMPTED",
        preemptions=3,
    )


@pytest.mark.parametrize("num_outputs", [0, 3])
def test_nothing_else_about_a_victim_changes(phase3: ModuleType, num_outputs: int) -> None:
    request = make_request(
        "A", 9, num_computed_tokens=9, num_output_tokens=num_outputs, priority=2, arrival_time=3.0, max_tokens=20
    )
    request.num_cached_tokens, request.block_hashes = 4, [b"of its first block"]
    check_preempt(
        phase3,
        request,
        StrictQueue([]),
        "Status, computed tokens and preemptions change; prompt, outputs, rank, hashes and all the rest stay.",
        "the fields that are listed should stay as they were: which line of yours changes them?",
    )


@pytest.mark.parametrize("num_computed", [7, 9, 11], ids=["known tokens", "all known tokens", "planned ahead"])
def test_blocks_are_freed_once_with_the_number_of_computed_tokens(phase3: ModuleType, num_computed: int) -> None:
    check_preempt(
        phase3,
        make_request("A", 9, num_computed_tokens=num_computed),
        StrictQueue([]),
        "kv.free is called once, with the number of tokens that were computed: the memory keeps those findable.",
        "`request.preempt()` sets num_computed_tokens to 0. What is it when you call kv.free, and do you change it?",
        kv_calls=[f"kv.free(A, {num_computed})"],
        computed_tokens=0,
    )


def test_a_victim_goes_to_the_front_of_the_line(phase3: ModuleType) -> None:
    check_preempt(
        phase3,
        make_request("V", 9, num_computed_tokens=7),
        StrictQueue([waiter("A"), waiter("B")]),
        "A preempted request was admitted before all that wait: it goes back in front of them.",
        "which method of the queue puts a request in front?",
        WAITING=["V", "A", "B"],
    )


def test_a_request_without_blocks_can_be_preempted(phase3: ModuleType) -> None:
    request = make_request("A", 9)
    request.status = RequestStatus.RUNNING
    check_preempt(
        phase3,
        request,
        StrictQueue([waiter("B")]),
        "A request that holds nothing yet is preempted like any other.",
        "it holds no block, and 0 of its tokens are computed: which of your lines run for such a request?",
        status="PREEMPTED",
        computed_tokens=0,
        preemptions=1,
        WAITING=["A", "B"],
        blocks_held=[],
    )


def test_blocks_of_tokens_that_were_never_computed_are_freed_too(phase3: ModuleType) -> None:
    request = make_request("A", 9)
    request.status = RequestStatus.RUNNING
    check_preempt(
        phase3,
        request,
        StrictQueue(),
        "A victim holds no blocks afterwards, even if none of its tokens was computed.",
        "0 tokens are computed, and 3 blocks are held. When does your code free?",
        blocks=[1, 2, 3],
        kv_calls=["kv.free(A, 0)"],
        blocks_held=[],
    )
