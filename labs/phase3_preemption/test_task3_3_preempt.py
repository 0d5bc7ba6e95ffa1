"""Graded tests of task 3.3."""

from types import ModuleType
from typing import Any

import pytest

from course.labtest.phase3.cases import waiter
from course.labtest.phase3.doubles import SharedBlocksKV
from course.labtest.phase3.harness import own_blocks
from course.labtest.support import (
    compare,
    explained,
    fields_of,
    make_request,
    waiting_queue,
)
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.seams.interfaces import RequestQueue

VICTIM_CHANGES = ("status", "num_computed_tokens", "num_preemptions")


def check_preempt(
    phase3: ModuleType, request: Request, waiting: RequestQueue, rule: str, hint: str, **expected: object
) -> None:
    kv = SharedBlocksKV(9, 4, {**own_blocks([request], 4), "Z": [9]})
    tokens, fields = list(request.all_token_ids), fields_of(request)
    before = [
        f"preempt {request.request_id}: {request.num_computed_tokens} of {request.num_tokens} tokens computed, "
        f"{request.num_output_tokens} of them outputs, preempted {request.num_preemptions}x so far",
        f"WAITING {', '.join(r.request_id for r in waiting) or 'nobody'}",
    ]
    with explained(before):
        phase3.preempt(request, waiting, kv)
    yours: dict[str, Any] = {
        "status": request.status.name,
        "computed tokens": request.num_computed_tokens,
        "preemptions": request.num_preemptions,
        "WAITING": "".join(r.request_id for r in waiting),
        "kv calls": kv.calls,
        "tokens kept": request.all_token_ids == tokens,
        "also changed": [name for name, value in fields_of(request).items() if value != fields[name]],
    }
    yours["also changed"] = [name for name in yours["also changed"] if name not in VICTIM_CHANGES]
    wanted = {label.replace("_", " "): value for label, value in expected.items()}
    compare(rule, before=before, expected=wanted, yours=yours, hint=hint)


def test_a_preempted_request_starts_again(phase3: ModuleType) -> None:
    request = make_request("A", 9, num_computed_tokens=11, num_output_tokens=3)
    check_preempt(
        phase3,
        request,
        waiting_queue([]),
        "A preempted request is PREEMPTED, has 0 computed tokens, keeps its tokens, and was preempted once more.",
        "what is lost with the blocks: the tokens, or their K and V?",
        status="PREEMPTED",
        computed_tokens=0,
        preemptions=1,
        WAITING="A",
        tokens_kept=True,
    )


def test_preemptions_add_up(phase3: ModuleType) -> None:
    request = make_request("A", 9, num_computed_tokens=4)
    request.num_preemptions = 2
    check_preempt(
        phase3,
        request,
        waiting_queue([]),
        "num_preemptions counts every time.",
        "do you set the counter, or add to it?",
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
        waiting_queue([]),
        "Status, computed tokens and preemptions change; prompt, outputs, rank, hashes and all the rest stay.",
        "five things happen to a victim. Which line of yours is a sixth?",
        also_changed=[],
    )


def test_blocks_are_freed_before_the_counter_is_reset(phase3: ModuleType) -> None:
    check_preempt(
        phase3,
        make_request("A", 9, num_computed_tokens=7),
        waiting_queue([]),
        "The blocks go back once, and before the counter is reset: kv.free looks at it.",
        "what is num_computed_tokens at the moment when you call kv.free?",
        kv_calls=["kv.free(A, 7)"],
        computed_tokens=0,
    )


def test_a_victim_goes_to_the_front_of_the_line(phase3: ModuleType) -> None:
    check_preempt(
        phase3,
        make_request("V", 9, num_computed_tokens=7),
        waiting_queue([waiter("A"), waiter("B")]),
        "A preempted request came before all who wait: it goes back in front of them.",
        "which method of the queue puts a request in front?",
        WAITING="VAB",
    )


def test_a_request_without_blocks_can_be_preempted(phase3: ModuleType) -> None:
    request = make_request("A", 9)
    request.status = RequestStatus.RUNNING
    check_preempt(
        phase3,
        request,
        waiting_queue([waiter("B")]),
        "Nothing computed is no special case.",
        "does any of your lines need a block to be there?",
        status="PREEMPTED",
        computed_tokens=0,
        preemptions=1,
        WAITING="AB",
        kv_calls=["kv.free(A, 0)"],
    )
