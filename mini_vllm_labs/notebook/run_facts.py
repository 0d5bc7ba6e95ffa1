"""Computes facts for questions about a run: steps, token counts and requests."""

from collections.abc import Iterable
from functools import cached_property, reduce
from typing import TypeVar

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.step_record import ScheduledRecord
from mini_vllm.engine.reasons import REASONS
from mini_vllm_labs.notebook.pictures import HasRecording
from mini_vllm_labs.notebook.recorded_mark import first_mark
from mini_vllm_labs.runs.traces.drafts import DraftCounts, Verdict, verdicts_of
from mini_vllm_labs.runs.traces.why import WAITS

T = TypeVar("T")


class RunFacts:
    """The facts of a run; requests have the names shown in its pictures.

    Raises `LookupError` for an event that did not happen in the run.
    """

    def __init__(self, run: HasRecording) -> None:
        self.run, self.recording, self.recorded = run, run.recording, first_mark([run])
        recording = self.recording
        self.ids = {recording.info.label(request_id): request_id for request_id in recording.info.titles}
        self.end = recording.state(len(recording.steps) - 1)

    @property
    def num_steps(self) -> int:
        return len(self.recording.steps)

    @property
    def last_step(self) -> int:
        return self.num_steps - 1

    @property
    def largest_step(self) -> int:
        """The maximum number of tokens in a step."""
        return max(record["total"] for record in self.recording.steps)

    @property
    def num_computed(self) -> int:
        """The number of computed tokens, including recomputed tokens."""
        return self.end.num_computed_tokens

    @property
    def num_recomputed(self) -> int:
        return self.end.num_recomputed_tokens

    @property
    def num_hit(self) -> int:
        """The number of tokens found in the prefix cache."""
        return self.end.num_hit_tokens

    @property
    def num_preemptions(self) -> int:
        return self.end.num_preemptions

    @property
    def num_drafts(self) -> int:
        """The number of verified drafts, including placeholders for drafts in plans made ahead."""
        return sum(self.drafts.proposed)

    @property
    def num_accepted(self) -> int:
        return sum(self.drafts.accepted)

    @property
    def tokens_per_step(self) -> float:
        """The mean number of tokens that a request gets per step."""
        return self.drafts.tokens_per_step

    @property
    def num_in_vain(self) -> int:
        """The number of tokens that in-flight steps computed for requests that had already ended."""
        verdicts = (verdict for step in verdicts_of(self.recording.steps) for verdict in step)
        return sum(verdict.num_scheduled for verdict in verdicts if verdict.in_vain)

    def verdicts(self, step: int) -> list[Verdict]:
        """Return the verdict on each request's drafts in a step, in the order of its plan."""
        return verdicts_of(self.recording.steps)[step]

    @cached_property
    def drafts(self) -> DraftCounts:
        return reduce(DraftCounts.plus, verdicts_of(self.recording.steps), DraftCounts())

    @property
    def most_at_once(self) -> int:
        """The maximum number of requests in a step."""
        return max(len(record["scheduled"]) for record in self.recording.steps)

    def tokens(self, step: int) -> int:
        return self.recording.steps[step]["total"]

    def tokens_of(self, request: str, step: int) -> int:
        return sum(share["n"] for share in self.recording.steps[step]["scheduled"] if share["id"] == self.ids[request])

    def hit_of(self, request: str) -> int:
        """Return the number of tokens that a request's last admission found in the cache."""
        return [share.get("hit", 0) for _, share in self._admissions(request)][-1]

    def scheduled(self, step: int) -> list[str]:
        return self._names(share["id"] for share in self.recording.steps[step]["scheduled"])

    def preempted(self, step: int) -> list[str]:
        return self._names(victim for victim, *_ in self.recording.steps[step]["preempted"])

    def preempted_for(self, step: int) -> list[str]:
        """Return the requests for which victims were preempted in a step."""
        return self._names(needy for _, needy, *_ in self.recording.steps[step]["preempted"])

    def waits(self, request: str, step: int) -> str:
        """Return the reason why a request is waiting in a step. Raises `LookupError` if the request gets tokens."""
        found = self.recording.steps[step].get("reasons", {})[self.ids[request]]
        return WAITS[REASONS[found["reason"]].mark]

    def waits_first_for(self, request: str) -> str:
        """Return the reason why a request got nothing in its first step."""
        return self.waits(request, first(s["step"] for s in self.recording.steps if self.ids[request] in s["added"]))

    @property
    def first_victim(self) -> str:
        return self.preempted(self.first_preemption())[0] if self.num_preemptions else "neither"

    def first_preemption(self) -> int:
        return first(record["step"] for record in self.recording.steps if record["preempted"])

    def admitted(self, request: str) -> int:
        return first(step for step, _ in self._admissions(request))

    def resumed(self, request: str) -> int:
        """Return the step in which a request is admitted for the second time."""
        return first(step for step, share in self._admissions(request) if share["kind"] == "resumed")

    def tokens_when_resumed(self, request: str) -> int:
        """Return the number of tokens that a request computes in the step that resumes it."""
        return self.tokens_of(request, self.resumed(request))

    def tokens_when_admitted(self, request: str) -> int:
        return self.tokens_of(request, self.admitted(request))

    def tokens_from(self, request: str, later: int) -> int:
        """Return the number of tokens in the step that is `later` steps after a request's admission."""
        return self.tokens(self.admitted(request) + later)

    def first_token(self, request: str) -> int:
        return first(record["step"] for record in self.recording.steps if self.ids[request] in record["sampled"])

    def applied(self, request: str) -> int:
        """Return the step in which the engine learns a request's first token."""
        outputs = ((record["step"], dict(record["output"])) for record in self.recording.steps)
        return first(step for step, output in outputs if output.get(self.ids[request]))

    def finished(self, request: str) -> int:
        ends = (
            (record["step"], request_id) for record in self.recording.steps for request_id, *_ in record["finished"]
        )
        return first(step for step, request_id in ends if request_id == self.ids[request])

    def blocks_of(self, request: str, step: int) -> list[int]:
        shares = self.recording.steps[step]["scheduled"]
        return first(share["blocks"] for share in shares if share["id"] == self.ids[request])

    def held_together(self, step: int) -> int:
        """Return the number of blocks that the requests in a step hold, counting each shared block once."""
        return len({block for share in self.recording.steps[step]["scheduled"] for block in share["blocks"]})

    def left_of(self, owner: str, taker: str) -> int:
        """Return the number of blocks held by `owner`, but not by `taker`, in their respective first steps."""
        before, after = (self.blocks_of(name, self.admitted(name)) for name in (owner, taker))
        return len(set(before) - set(after))

    def holds(self, request: str, num_blocks: int) -> int:
        """Return the first step in which a request holds at least `num_blocks` blocks."""
        owner = self.ids[request]
        shares = ((record["step"], share) for record in self.recording.steps for share in record["scheduled"])
        return first(step for step, share in shares if share["id"] == owner and len(share["blocks"]) >= num_blocks)

    @property
    def takes_what_is_missing(self) -> bool:
        """Whether each allocation takes the blocks needed for all tokens so far, minus the blocks already held."""
        size = self.recording.info.block_size
        shares = [share for record in self.recording.steps for share in record["scheduled"]]
        return all(len(share["blocks"]) == cdiv(share["computed"] + share["n"], size) for share in shares)

    def _admissions(self, request: str) -> list[tuple[int, ScheduledRecord]]:
        return [
            (record["step"], share)
            for record in self.recording.steps
            for share in record["scheduled"]
            if share["id"] == self.ids[request] and share["kind"] != "running"
        ]

    def _names(self, request_ids: Iterable[str]) -> list[str]:
        return [self.recording.info.label(request_id) for request_id in request_ids]


def first(found: Iterable[T]) -> T:
    """Return the first item. Raises `LookupError` if there are no items."""
    for one in found:
        return one
    raise LookupError("this did not happen in the run")
