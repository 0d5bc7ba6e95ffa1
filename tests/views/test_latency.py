"""Where a request's time went: every computed token belongs to one request, and counts as waiting time for all
others."""

import pytest

from mini_vllm_labs.pictures.time_machine.latency import PARTS, WORK, spent
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.traces.run_state import RunState
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from tests.views import runs

FOUR = [TimedRequest(place, name, [ord(name)] * 4, max_tokens=13) for place, name in enumerate("ABCD")]
RUNS = {
    "preempted": lambda: runs.in_blocks_of_4(FOUR, 6, 3),
    "own blocks found again": lambda: runs.in_blocks_of_4(FOUR, 6, 5),
    "chunks": lambda: runs.in_blocks_of_4(runs.A_PROMPT_AMONG_DECODES, 20, 5, long_prefill_token_threshold=8),
    "queue": lambda: runs.queued("priority"),
}


@pytest.mark.parametrize("name", RUNS)
def test_each_token_is_one_requests_work_and_time_of_all_that_are_present(name: str) -> None:
    recording: Recording = RUNS[name]()
    parts, state, present = spent(recording), RunState(recording.info), set[str]()
    lived = dict.fromkeys(parts, 0)
    for record in recording.steps:
        state.advance(record)
        present |= set(record["added"])
        for request_id in present:
            lived[request_id] += record["total"]
        present -= {request_id for request_id, *_ in record["finished"]}
    assert {request_id: each.total() for request_id, each in parts.items()} == lived
    assert sum(each[kind] for each in parts.values() for kind in WORK) == state.num_computed_tokens
    assert sum(each["again"] for each in parts.values()) == state.num_recomputed_tokens
    assert {kind for each in parts.values() for kind in each} <= set(PARTS)


def test_a_preemption_costs_its_victim_time_in_the_queue_and_tokens_again() -> None:
    parts = spent(RUNS["preempted"]())
    assert {name for name, each in parts.items() if each["out"]} == {
        name for name, each in parts.items() if each["again"]
    }
    assert sum(each["again"] for each in parts.values()) > 0
