"""Restores the stored steps: their records, their states, and the histories of their requests."""

import pickle
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.pictures.time_machine.history import Histories, RequestHistory
from mini_vllm_labs.runs.palette import label
from mini_vllm_labs.runs.traces.drafts import Verdict, verdicts_of
from mini_vllm_labs.runs.traces.run_state import RunInfo, RunState
from mini_vllm_labs.serving.live.packed_steps import MAX_STEPS, Chunk, Keyframe, PackedStep, Totals

RECENT = 150  # more than the steps in the widest timeline, because each request in it needs a colour


@dataclass(frozen=True)
class LiveInfo(RunInfo):
    """The constants of a server's engine, and its changing set of requests.

    Each request gets the smallest free number, which determines its colour and letter. It keeps that number after it
    has ended, for pages that look back at earlier steps.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    _in_use: set[str] = field(default_factory=set)
    _returned: list[int] = field(default_factory=list)

    def index(self, request_id: str) -> int:
        return self.numbers[request_id]

    def label(self, request_id: str) -> str:
        return label(self.index(request_id))

    def add(self, request_id: str, num_prompt_tokens: int) -> None:
        self.titles[request_id] = request_id
        self.num_prompt_tokens[request_id] = num_prompt_tokens
        if request_id not in self.numbers:
            # Together, numbers in use and returned numbers are 0 to n - 1, so if none has been returned, the next
            # number is n.
            self.numbers[request_id] = heappop(self._returned) if self._returned else len(self._in_use)
            self._in_use.add(request_id)

    def end_time_of(self, request_ids: Iterable[str]) -> None:
        """Release the numbers of some requests for use by new requests."""
        for request_id in self._in_use.intersection(request_ids):
            self._in_use.remove(request_id)
            heappush(self._returned, self.numbers[request_id])

    def forget(self, request_ids: list[str]) -> None:
        self.end_time_of(request_ids)
        for request_id in request_ids:
            del self.titles[request_id], self.num_prompt_tokens[request_id], self.numbers[request_id]


class LiveHistories(Histories):
    def arrive(self, request_id: str) -> None:
        """Start a request's history, unless it already has one."""
        self.of.setdefault(request_id, RequestHistory())

    def between(self, first: int, last: int) -> list[str]:
        """Return the requests present in any of these steps, in order of arrival."""
        return [
            request_id
            for request_id, history in self.of.items()
            if history.spans and history.spans[0].first <= last and history.spans[-1].last >= first
        ]

    def add(self, state: RunState) -> None:
        """Add the state's current step to the histories. Unlike in a complete run, requests that have already ended
        cost no time here."""
        record = state.record
        assert record is not None
        kinds = {share["id"]: "decode" if state.is_decode(share) else "prefill" for share in record["scheduled"]}
        waiting = {*record["waiting_after"], *(victim for victim, *_ in record["preempted"])}
        for request_id, history in self.of.items():
            if history.end is None and (request_id in kinds or request_id not in state.finished):
                kind = kinds.get(request_id) or ("waiting" if request_id in waiting else "skipped")
                history.add(kind, record["step"])
        self._add_events(record, state)


class LiveRun:
    """The last 1,000 steps of an engine, received in chunks."""

    def __init__(self, facts: dict[str, Any]) -> None:
        names = ("num_blocks", "block_size", "token_budget", "prefix_caching")
        self.info = LiveInfo({}, {}, **{name: facts[name] for name in names}, max_num_seqs=facts["most_running"])
        self.histories = LiveHistories([])
        self.totals: dict[int, Totals] = {}
        self.records: dict[int, StepRecord] = {}
        self._state = RunState(self.info)
        self._keyframes: dict[int, RunState] = {}
        self._alive: dict[str, None] = {}
        self._replayed: RunState | None = None

    @property
    def newest(self) -> int:
        """The number of the last step, or -1 if there are no steps."""
        return next(reversed(self.records), -1)

    @property
    def oldest(self) -> int:
        """The number of the first step that can be drawn, or 0 if there are no steps."""
        return next(iter(self.records), 0)

    def feed(self, chunk: Chunk) -> None:
        if chunk.first > self.newest:
            self._restart(chunk.first, pickle.loads(chunk.keyframe))
        for number, step in enumerate(chunk.steps, chunk.first):
            if number > self.newest:
                self._add(pickle.loads(step))

    def state(self, step: int) -> RunState:
        """Return the state at a given step. The next call changes the same object, so finish using the state before you
        call again."""
        if step >= self.newest:
            return self._state
        first = max(place for place in self._keyframes if place <= step)
        at = -1 if self._replayed is None or self._replayed.record is None else self._replayed.record["step"]
        if self._replayed is None or not first <= at <= step:
            # otherwise, continue from the last state, because a page that is playing requests one step after another
            self._replayed, at = self._copy(self._keyframes[first]), first - 1
        for later in range(at + 1, step + 1):
            self._replayed.advance(self.records[later])
        return self._replayed

    def recent(self, step: int) -> set[str]:
        """Return the requests present in a step or in the 150 steps before it."""
        return set(self.histories.between(step - RECENT, step))

    def verdicts(self, step: int) -> list[Verdict]:
        """Return the verdicts on the drafts whose tokens a step has applied."""
        applied = self.records[step]["update_of"]
        if applied is None or applied not in self.records:
            return []
        first = applied - (applied - 1 in self.records)
        verdicts = verdicts_of([self.records[place] for place in range(first, step + 1)])[applied - first]
        return [verdict for verdict in verdicts if verdict.drafts and verdict.sampled]

    def _copy(self, state: RunState) -> RunState:
        return deepcopy(state, {id(state.info): state.info})  # all states share the same information about requests

    def _restart(self, first: int, keyframe: Keyframe) -> None:
        if first != self.newest + 1:  # after a gap, the previous state is useless
            self._state = RunState(self.info)
            self._keyframes.clear()
            self._drop_records(first)
        self._drop_records(first - MAX_STEPS)
        for request in keyframe.requests:
            self.info.add(request.request_id, request.num_prompt_tokens)
            self.histories.arrive(request.request_id)
        self._alive = {request.request_id: None for request in keyframe.requests}
        self._forget_ended()
        self._state, self._replayed = state_of(keyframe, self._state), None
        self._keyframes[first] = self._copy(self._state)

    def _drop_records(self, first: int) -> None:
        for old in [step for step in self.records if step < first]:
            del self.records[old], self.totals[old]
        for old in [step for step in self._keyframes if step < self.oldest]:
            del self._keyframes[old]

    def _forget_ended(self) -> None:
        """Drop the requests that ended before the first stored step."""
        of, oldest = self.histories.of, self.oldest
        ended = {name: last_step(of[name]) for name in self.info.titles if name not in self._alive}
        self.info.end_time_of([name for name, last in ended.items() if last < self.newest - RECENT])
        gone = [name for name, last in ended.items() if last < oldest or not self.records]
        self.info.forget(gone)
        for request_id in gone:
            self.histories.of.pop(request_id, None)

    def _add(self, packed: PackedStep) -> None:
        record, state = packed.record, self._state
        for request_id, length in packed.lengths.items():
            self.info.add(request_id, length)
            self.histories.arrive(request_id)
            self._alive[request_id] = None
        self._complete(record, state)
        applied = record["update_of"]
        if applied is not None and applied != record["step"] and applied in self.records:
            self.records[applied]["sampled"] = packed.sampled
        elif applied is not None:
            record["sampled"] = packed.sampled
        self.records[record["step"]], self.totals[record["step"]] = record, packed.totals
        state.advance(record)
        self.histories.add(state)

    def _complete(self, record: StepRecord, state: RunState) -> None:
        """Restore the omitted fields: block tables, evictions, and all waiting requests after the first few."""
        tables = state.tables_after_update()
        for share in record["scheduled"]:
            if share["kind"] == "running":
                share["blocks"] = [*tables.get(share["id"], []), *share["new_blocks"]]
            record["evicted"] += [block for block in share["new_blocks"] if block in state.pool.cached]
        ended = [name for name, *_ in record["finished"]]
        for request_id in [*record["aborted"], *record["aborted_before_update"], *ended]:
            self._alive.pop(request_id, None)
        known = {name for name, *_ in record["running_after"]} | set(record["waiting_after"])
        record["waiting_after"] += [name for name in self._alive if name not in known]


def state_of(keyframe: Keyframe, before: RunState) -> RunState:
    """Return the state in a keyframe, completed from the state before it.

    A keyframe omits the owners of the blocks' content, and the counters of known requests that have ended.
    """
    info = before.info
    state = RunState(
        info,
        remembered={block: name for block, name in before.remembered.items() if name in info.titles},
        finished={name: reason for name, reason in before.finished.items() if name in info.titles},
    )
    for name in state.finished:
        state.num_output_tokens[name] = before.num_output_tokens.get(name, 0)
        state.computed[name] = before.computed.get(name, 0)
    for request in keyframe.requests:
        state.num_output_tokens[request.request_id] = request.num_output_tokens
        state.computed[request.request_id] = request.num_computed_tokens
        if request.blocks:
            state.tables[request.request_id] = request.blocks
            state.remembered |= dict.fromkeys(request.blocks, request.request_id)
    state.pool.free_queue = list(keyframe.free_queue)
    state.pool.cached = set(keyframe.cached)
    return state


def last_step(history: RequestHistory) -> int:
    """Return the last step in which a request was present, or -1 if there is no such step."""
    return history.spans[-1].last if history.spans else -1
