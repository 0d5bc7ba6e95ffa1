"""The record of one step, in the format of the recorded vLLM traces.

Each `StepRecord` is one line of JSON; `mini_vllm_labs/runs/parity/traces/README.md` explains every field. The
visualiser, the parity replay and the comparison of two lineups all read this format.
"""

from typing import Any, NotRequired, TypedDict


class ScheduledRecord(TypedDict):
    """One request's share of a step."""

    id: str
    kind: str
    computed: int
    n: int
    hit: NotRequired[int]
    new_blocks: list[int]
    blocks: list[int]
    drafts: NotRequired[list[int]]
    encode: NotRequired[list[int]]
    sliding_blocks: NotRequired[list[int]]


class StepRecord(TypedDict):
    """One step of the scheduler."""

    step: int
    added: list[str]
    aborted: list[str]
    scheduled: list[ScheduledRecord]
    total: int
    preempted: list[tuple[str, str, int]]
    evicted: list[int]
    finished_sent: list[str]
    free_after_schedule: int
    sampled: dict[str, list[int]]
    aborted_before_update: list[str]
    update_of: int | None
    output: list[tuple[str, list[int]]]
    finished: list[tuple[str, str | None, int | str | None]]
    drafts_given: dict[str, list[int]]
    free_after_update: int
    running_after: list[tuple[str, int, int, int]]
    waiting_after: list[str]
    detail: dict[str, Any]
    priorities: NotRequired[dict[str, int]]
    reasons: NotRequired[dict[str, dict[str, Any]]]
    limits: NotRequired[dict[str, dict[str, Any]]]
