"""Describes the events of a step in a few sentences, and names the events worth pausing at."""

from collections.abc import Iterable
from itertools import chain, zip_longest

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.traces.run_state import RunState

MAX_SENTENCES = 3


def describe_step(state: RunState) -> str:
    """Describe a step's events, rare ones first, and why requests are waiting, in at most three sentences."""
    if (record := state.record) is None:
        return "No step yet."
    if is_stuck(record):
        return stuck(state, record)
    events = [*preempted(state, record), *admitted(state, record), *chunks(state, record), *finished(state, record)]
    if len(events) == 1 and events[0].startswith("Admitted"):
        events.append(taken(state, record))
    wait = waiting(state, record)
    return " ".join([*(events or ordinary(state, record))[: MAX_SENTENCES - len(wait)], *wait])


def is_stuck(record: StepRecord) -> bool:
    """Return whether nothing can be scheduled in this step or any later step."""
    return bool(record.get("detail", {}).get("stuck"))


def stuck(state: RunState, record: StepRecord) -> str:
    """Return why no more requests can be scheduled."""
    unit, free = state.info.unit, record["free_after_schedule"]
    needs = [f"{state.info.label(i)} needs {num_missing(state, i)} more" for i, *_ in record["running_after"]]
    waiting = f" {labels(state, record['waiting_after'])} cannot be admitted." if record["waiting_after"] else ""
    named = f"{free} of {state.info.num_blocks} {unit}s are free"
    return f"Stuck: nothing can move. {named}, and {', '.join(needs)} to go on.{waiting}"


def num_missing(state: RunState, request_id: str) -> int:
    """Return how many blocks a running request lacks for its next token."""
    num_needed = cdiv(state.computed.get(request_id, 0) + 1, state.info.block_size)
    return max(0, num_needed - len(state.tables.get(request_id, [])))


def labels(state: RunState, request_ids: Iterable[str]) -> str:
    return ", ".join(map(state.info.label, request_ids))


def preempted(state: RunState, record: StepRecord) -> list[str]:
    sentences = []
    for victim, cause, _ in record["preempted"]:
        need = f"{state.info.label(cause)} needs a block and none is free"
        if victim == cause:
            sentences.append(f"{need}, and {state.info.label(victim)} itself is preempted.")
        else:
            place = "at the front of the queue" if is_in_front(record, victim) else "at its place in the queue"
            sentences.append(f"{need}, so {state.info.label(victim)} is preempted and waits {place}.")
    return sentences


def is_in_front(record: StepRecord, victim: str) -> bool:
    """Return whether all requests ahead of a victim in the waiting queue are also victims of this step."""
    victims = {request_id for request_id, *_ in record["preempted"]}
    waiting = record["waiting_after"]
    return victim not in waiting or victims.issuperset(waiting[: waiting.index(victim)])


def admitted(state: RunState, record: StepRecord) -> list[str]:
    """Return a sentence for each request that is resumed or has a hit, and one sentence for all others."""
    sentences, plain = [], []
    for share in record["scheduled"]:
        if share["kind"] == "running":
            continue
        known, hit = state.num_known[share["id"]], share.get("hit", 0)
        event = f"{state.info.label(share['id'])} is {'resumed' if share['kind'] == 'resumed' else 'admitted'}"
        if hit:
            sentences.append(f"{event}: {hit} of its {known} tokens are in the prefix cache.")
        elif share["kind"] == "resumed":
            sentences.append(f"{event} and computes all of its {known} tokens.")
        else:
            plain.append(share["id"])
    return [*sentences, f"Admitted: {labels(state, plain)}."] if plain else sentences


def taken(state: RunState, record: StepRecord) -> str:
    """Describe a step that only admits requests, with their tokens and blocks."""
    blocks, info = sum(len(share["new_blocks"]) for share in record["scheduled"]), state.info
    of = f"{record['total']:,} of at most {info.token_budget:,} tokens"
    return f"The step computes {of}, and takes {blocks:,} {info.unit}{'s' * (blocks != 1)}."


def chunks(state: RunState, record: StepRecord) -> list[str]:
    """Return a sentence for the first prompt that this step computes only partly."""
    for share in record["scheduled"]:
        end, known = share["computed"] + share["n"], state.num_known[share["id"]]
        if end < known:
            return [f"{state.info.label(share['id'])} computes a chunk, up to token {end} of {known}."]
    return []


def waiting(state: RunState, record: StepRecord) -> list[str]:
    """Return why the first waiting request was not admitted, if known; requests preempted in this step are skipped.

    The live page displays a step's recorded `waits` separately.
    """
    if "waits" in record.get("detail", {}):
        return []
    info, victims = state.info, {victim for victim, *_ in record["preempted"]}
    head = next((i for i in record["waiting_after"] if i not in victims), None)
    why = "" if head is None or head in record["aborted"] else reason(state, record, head)
    return [f"{info.label(head)} waits: {why}."] if head is not None and why else []


def reason(state: RunState, record: StepRecord, request_id: str) -> str:
    """Return the first reason not to admit a request, in the order of the scheduler's checks."""
    info, free = state.info, record["free_after_schedule"]
    num_running, left = len(record["running_after"]) + len(record["finished"]), info.token_budget - record["total"]
    num_tokens = state.num_known[request_id]
    num_needed = cdiv(num_tokens, info.block_size)
    if record["preempted"]:
        return "a step with a preemption admits no request"
    if info.max_num_seqs and num_running >= info.max_num_seqs:
        return f"{num_running} of {info.max_num_seqs} seats are taken"
    if left <= 0:
        return f"all {info.token_budget} tokens of the step are used"
    if num_needed > free:
        needs = f"its {num_tokens} tokens fill {num_needed} {info.unit}{'s' * (num_needed != 1)}"
        return f"{needs}, and {free} of {info.num_blocks} {'is' if free == 1 else 'are'} free"
    return f"its {num_tokens} tokens are more than the {left} left of the budget" if num_tokens > left else ""


def finished(state: RunState, record: StepRecord) -> list[str]:
    ended = [request_id for request_id, *_ in record["finished"]]
    return [f"Finished, blocks freed: {labels(state, ended)}."] if ended else []


def ordinary(state: RunState, record: StepRecord) -> list[str]:
    """Return the sentences for a step without rare events."""
    decodes = [share["id"] for share in record["scheduled"] if state.is_decode(share)]
    prefills = [share["id"] for share in record["scheduled"] if not state.is_decode(share)]
    kinds = [("Decode", decodes), ("Prefill", prefills)]
    return [f"{kind}: {labels(state, ids)}." for kind, ids in kinds if ids] or ["No request could be scheduled."]


def events_in(*recordings: Recording) -> list[list[str]]:
    """Return, for each step, the events that occur in that step in any of the runs."""
    runs = [map(events_of, recording.steps) for recording in recordings]
    return [list(dict.fromkeys(chain(*step))) for step in zip_longest(*runs, fillvalue=())]


def events_of(record: StepRecord) -> list[str]:
    """Return the events of a step: any of preemption, prefix hit, stall and finish."""
    happened = {
        "preemption": record["preempted"],
        "prefix hit": [share for share in record["scheduled"] if share.get("hit")],
        "stall": not record["scheduled"] and (record["running_after"] or record["waiting_after"]),
        "finish": record["finished"],
    }
    return [event for event, is_there in happened.items() if is_there]
