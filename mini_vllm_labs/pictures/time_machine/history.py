"""Records each request's history step by step, for the rows of the timeline."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.pictures.time_machine.queues import record_of
from mini_vllm_labs.runs.traces.run_state import RunInfo, RunState
from mini_vllm_labs.runs.traces.sentences import is_stuck


@dataclass
class Span:
    """Steps `first` to `last` in which a request had the same state: waiting, prefill, decode or skipped."""

    kind: str
    first: int
    last: int

    @property
    def computes(self) -> bool:
        return self.kind in ("prefill", "decode")


@dataclass(frozen=True)
class Wait:
    """Steps `first` to `last`, in which a request waited for its first or next token.

    `num_tokens` counts the tokens that these steps computed for all requests.
    """

    first: int
    last: int
    num_tokens: int
    is_first: bool


@dataclass
class RequestHistory:
    """One request's history over a run. `tokens` lists the steps that produced a token, `hits` contains (step, tokens),
    and `end` is (step, reason)."""

    spans: list[Span] = field(default_factory=list)
    preemptions: list[int] = field(default_factory=list)
    hits: list[tuple[int, int]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    end: tuple[int, str] | None = None

    @property
    def first_token(self) -> int | None:
        return self.tokens[0] if self.tokens else None

    def add(self, kind: str, step: int) -> None:
        if self.spans and self.spans[-1].kind == kind and self.spans[-1].last == step - 1:
            self.spans[-1].last = step
        else:
            self.spans.append(Span(kind, step, step))

    def waits(self, num_tokens: Sequence[int]) -> list[Wait]:
        """Return the wait for each token. `num_tokens` lists how many tokens each step computed."""
        starts = [self.spans[0].first if self.spans else 0, *(step + 1 for step in self.tokens)]
        return [
            Wait(start, step, sum(num_tokens[start : step + 1]), is_first=step == self.first_token)
            for start, step in zip(starts, self.tokens, strict=False)  # no token has followed the last start yet
        ]

    def text(self, state: RunState, request_id: str, blocks: str = "") -> str:
        """Return the request's status in the current step, its tokens, its `blocks`, and its events so far."""
        step = record_of(state)["step"]
        computed, known = state.num_reached(request_id), state.num_tokens(request_id)
        parts = [state.status(request_id), f"{computed} of {known} tokens computed", *([blocks] if blocks else [])]
        parts += [f"preempted in step {number}" for number in self.preemptions if number <= step]
        parts += [f"hit of {tokens} tokens in step {number}" for number, tokens in self.hits if number <= step]
        if self.first_token is not None and self.first_token <= step:
            parts.append(f"first token in step {self.first_token}")
        if self.end is not None and self.end[0] <= step:
            parts.append(f"finished in step {self.end[0]} ({self.end[1] or 'no reason recorded'})")
        return ", ".join(parts)


class Histories:
    """The histories of a run's requests, each step's token count, and any stuck step, filled in step by step."""

    def __init__(self, request_ids: Sequence[str]) -> None:
        self.of = {request_id: RequestHistory() for request_id in request_ids}
        self.num_tokens: list[int] = []
        self.stuck: int | None = None
        self._arrived: set[str] = set()

    def arrived(self, step: int) -> list[str]:
        return [i for i, history in self.of.items() if history.spans and history.spans[0].first <= step]

    def waits(self, info: RunInfo, step: int, *, first: bool) -> str:
        """Return how many tokens were computed while each request waited for its first token, or during its longest
        later wait."""
        longest = [
            (i, max((wait.num_tokens for wait in waits if wait.last <= step and wait.is_first == first), default=0))
            for i, waits in self.all_waits.items()
        ]
        return ", ".join(f"{info.label(i)} {num_tokens}" for i, num_tokens in longest if num_tokens)

    @cached_property
    def all_waits(self) -> dict[str, list[Wait]]:
        """The waits of each request, complete once the run is over."""
        return {i: history.waits(self.num_tokens) for i, history in self.of.items()}

    def add(self, state: RunState) -> None:
        record = record_of(state)
        self._arrived |= set(record["added"])
        self.num_tokens.append(record["total"])
        if is_stuck(record):
            self.stuck = record["step"]
        for request_id in self._arrived:
            history = self.of[request_id]
            if history.end is None and (kind := state.status(request_id)) != "done":
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
            if token_ids:
                self.of[request_id].tokens.append(step)
        for request_id, reason in state.finished.items():
            if request_id in self.of and self.of[request_id].end is None:
                self.of[request_id].end = (step, reason)
