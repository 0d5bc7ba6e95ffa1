"""The steps that are kept, whole again: their records, their states, and the histories of their requests."""

import pickle
from dataclasses import dataclass
from typing import Any

from course.traces.drafts import Verdict, verdicts_of
from course.traces.run_state import RunState
from course.views.time_machine.history import RequestHistory
from mini_vllm.core.step_record import StepRecord
from serving.live.chunks import MAX_STEPS, Chunk
from serving.live.drawing.live_histories import LiveHistories
from serving.live.drawing.live_info import LiveInfo
from serving.live.packed import Keyframe, PackedStep, Totals

RECENT = 150


@dataclass(frozen=True)
class Restart:
    """What a state is built from: a keyframe, and what the steps before it have left.

    `remembered` is whose content the blocks hold; `finished`, `outputs` and `computed` are of requests that have ended.
    """

    keyframe: Keyframe
    remembered: dict[int, str]
    finished: dict[str, str]
    outputs: dict[str, int]
    computed: dict[str, int]

    @classmethod
    def behind(cls, state: RunState, keyframe: Keyframe) -> "Restart":
        """Return what a state leaves of the requests that are still known."""
        known = state.info.titles
        remembered = {block: name for block, name in state.remembered.items() if name in known}
        finished = {name: reason for name, reason in state.finished.items() if name in known}
        outputs = {name: state.num_output_tokens.get(name, 0) for name in finished}
        return cls(keyframe, remembered, finished, outputs, {name: state.computed.get(name, 0) for name in finished})

    def state(self, info: LiveInfo) -> RunState:
        """Return the state before the first step behind the keyframe."""
        state = RunState(info, remembered=dict(self.remembered), finished=dict(self.finished))
        state.num_output_tokens |= self.outputs
        state.computed |= self.computed
        for request in self.keyframe.requests:
            state.num_output_tokens[request.request_id] = request.num_output_tokens
            state.computed[request.request_id] = request.num_computed_tokens
            if request.blocks:
                state.tables[request.request_id] = request.blocks
                state.remembered |= dict.fromkeys(request.blocks, request.request_id)
        state.pool.free_queue = list(self.keyframe.free_queue)
        state.pool.cached = set(self.keyframe.cached)
        return state


class LiveRun:
    """The last 1,000 steps of an engine, fed by chunks."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.info = LiveInfo.of(facts)
        self.histories = LiveHistories()
        self.totals: dict[int, Totals] = {}
        self.records: dict[int, StepRecord] = {}
        self._state = RunState(self.info)
        self._restarts: dict[int, Restart] = {}
        self._alive: dict[str, None] = {}
        self._replayed: RunState | None = None

    @property
    def newest(self) -> int:
        """The last step, -1 if there is none."""
        return max(self.records, default=-1)

    @property
    def oldest(self) -> int:
        """The first step that can be drawn, 0 if there is none."""
        return min(self.records, default=0)

    def feed(self, chunk: Chunk) -> None:
        """Take in the steps that follow, or steps from a keyframe on."""
        if chunk.keyframe:
            self._restart(chunk.first, pickle.loads(chunk.keyframe))
        for step in chunk.steps:
            self._add(pickle.loads(step))

    def state(self, step: int) -> RunState:
        """Return the state in a step. It is one object that changes: draw it before the next call."""
        if step >= self.newest:
            return self._state
        first = max(place for place in self._restarts if place <= step)
        at = -1 if self._replayed is None or self._replayed.record is None else self._replayed.record["step"]
        if self._replayed is None or not first <= at <= step:
            self._replayed, at = self._restarts[first].state(self.info), first - 1
        for later in range(at + 1, step + 1):
            self._replayed.advance(self.records[later])
        return self._replayed

    def recent(self, step: int) -> set[str]:
        """Return the requests whose time a step is in: those that were there in it or in the 150 steps before."""
        return set(self.histories.between(step - RECENT, step))

    def verdicts(self, step: int) -> list[Verdict]:
        """Return what became of the drafts whose tokens a step has applied."""
        applied = self.records[step]["update_of"]
        if applied is None or applied not in self.records:
            return []
        first = applied - (applied - 1 in self.records)
        return verdicts_of([self.records[place] for place in range(first, step + 1)])[applied - first]

    def _restart(self, first: int, keyframe: Keyframe) -> None:
        if first != self.newest + 1:
            self._forget_all()
        for old in [step for step in self.records if step < first - MAX_STEPS]:
            del self.records[old], self.totals[old]
        for old in [step for step in self._restarts if step < self.oldest]:
            del self._restarts[old]
        for request in keyframe.requests:
            self.info.add(request.request_id, request.num_prompt_tokens)
            self.histories.arrive(request.request_id)
        self._alive = {request.request_id: None for request in keyframe.requests}
        self._forget_ended()
        self._restarts[first] = Restart.behind(self._state, keyframe)
        self._state, self._replayed = self._restarts[first].state(self.info), None

    def _forget_all(self) -> None:
        self.records.clear()
        self.totals.clear()
        self._restarts.clear()
        gone = list(self.info.titles)
        self.info.forget(gone)
        self.histories.forget(gone)
        self._state = RunState(self.info)

    def _forget_ended(self) -> None:
        """Let the requests go that ended before the first step that is kept."""
        of, oldest = self.histories.of, self.oldest
        ended = {name: last_step(of[name]) for name in self.info.titles if name not in self._alive}
        self.info.numbers.end_time_of([name for name, last in ended.items() if last < self.newest - RECENT])
        gone = [name for name, last in ended.items() if last < oldest]
        self.info.forget(gone)
        self.histories.forget(gone)

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
        """Put back what was left out: block tables, evictions, and who waits behind the first ones."""
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


def last_step(history: RequestHistory) -> int:
    """Return the last step in which a request was there, -1 if it was in none."""
    return history.spans[-1].last if history.spans else -1
