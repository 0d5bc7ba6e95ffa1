"""The history of each request, step by step: the rows of the timeline."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from course.traces.run_state import RunState
from mini_vllm.core.step_record import StepRecord


@dataclass
class Span:
    """Steps `first` to `last` in which a request did the same: waiting, prefill, decode or skipped."""

    kind: str
    first: int
    last: int


@dataclass
class RequestHistory:
    """One request over a run. `hits` are (step, tokens), `end` is (step, reason)."""

    spans: list[Span] = field(default_factory=list)
    preemptions: list[int] = field(default_factory=list)
    hits: list[tuple[int, int]] = field(default_factory=list)
    first_token: int | None = None
    end: tuple[int, str] | None = None

    def add(self, kind: str, step: int) -> None:
        """Extend the last span, or begin a new one."""
        if self.spans and self.spans[-1].kind == kind and self.spans[-1].last == step - 1:
            self.spans[-1].last = step
        else:
            self.spans.append(Span(kind, step, step))

    def text(self, state: RunState, request_id: str, blocks: str = "") -> str:
        """Return the request's status in the current step, its tokens, its `blocks`, and its events so far."""
        assert state.record is not None
        step = state.record["step"]
        computed, known = state.computed.get(request_id, 0), state.num_tokens(request_id)
        parts = [state.status(request_id), f"{computed} of {known} tokens computed", *([blocks] if blocks else [])]
        parts += [f"preempted in step {number}" for number in self.preemptions if number <= step]
        parts += [f"hit of {tokens} tokens in step {number}" for number, tokens in self.hits if number <= step]
        if self.first_token is not None and self.first_token <= step:
            parts.append(f"first token in step {self.first_token}")
        if self.end is not None and self.end[0] <= step:
            parts.append(f"finished in step {self.end[0]} ({self.end[1] or 'no reason recorded'})")
        return ", ".join(parts)


class Histories:
    """The histories of all requests of a run, filled step by step."""

    def __init__(self, request_ids: Sequence[str]) -> None:
        self.of = {request_id: RequestHistory() for request_id in request_ids}
        self._arrived: set[str] = set()

    def arrived(self, step: int) -> list[str]:
        """Return the requests that have arrived by `step`."""
        return [i for i, history in self.of.items() if history.spans and history.spans[0].first <= step]

    def add(self, state: RunState) -> None:
        """Add the state's current step."""
        record = state.record
        assert record is not None
        self._arrived |= set(record["added"])
        for request_id in self._arrived:
            history, kind = self.of[request_id], state.status(request_id)
            if history.end is None and kind != "done":
                history.add("waiting" if kind == "preempted" else kind, record["step"])
        self._add_events(record, state)

    def _add_events(self, record: StepRecord, state: RunState) -> None:
        step = record["step"]
        for victim, *_ in record["preempted"]:
            self.of[victim].preemptions.append(step)
        for share in record["scheduled"]:
            if share.get("hit"):
                self.of[share["id"]].hits.append((step, share["hit"]))
        for request_id, token_ids in record["output"]:
            if token_ids and self.of[request_id].first_token is None:
                self.of[request_id].first_token = step
        for request_id, reason in state.finished.items():
            if request_id in self.of and self.of[request_id].end is None:
                self.of[request_id].end = (step, reason)
