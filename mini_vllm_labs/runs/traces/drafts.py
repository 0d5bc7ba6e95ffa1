"""What became of the drafts of a run, step by step: a fold over its `StepRecord`s, without an engine."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mini_vllm.core.step_record import StepRecord

STAND_IN = -1  # stands for a draft that was unknown when the step was planned


@dataclass(frozen=True)
class Verdict:
    """One request's share of a step and what was sampled for it.

    `num_computed` are the tokens computed before, `num_scheduled` includes the `drafts`. `sampled` are the accepted
    drafts and one token more, empty without a token; `kept` those of them that became output. `in_vain`: the request
    had ended, or was preempted, before the result came.
    """

    request_id: str
    num_computed: int
    num_scheduled: int
    drafts: Sequence[int]
    sampled: Sequence[int]
    kept: Sequence[int]
    blocks: Sequence[int]
    in_vain: bool = False

    @property
    def num_accepted(self) -> int:
        """The drafts that the target has confirmed."""
        return max(0, len(self.sampled) - 1)

    @property
    def num_rejected(self) -> int:
        """The drafts taken back, from the first wrong one on."""
        return len(self.drafts) - self.num_accepted

    @property
    def num_planned(self) -> int:
        """The tokens computed if all drafts were right."""
        return self.num_computed + self.num_scheduled

    @property
    def num_computed_after(self) -> int:
        """The tokens computed once the rejected drafts are taken back."""
        return self.num_planned - self.num_rejected


@dataclass(frozen=True)
class DraftCounts:
    """Counts of a run so far. `proposed` and `accepted` are the drafts by position, the first one first.

    `num_shares` are the shares that sampled, one per request and step; `num_tokens` those they kept.
    """

    num_shares: int = 0
    num_tokens: int = 0
    proposed: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()

    @property
    def tokens_per_step(self) -> float:
        """The tokens that a request gets from a step, on average; 0 before the first one."""
        return self.num_tokens / self.num_shares if self.num_shares else 0.0

    def plus(self, verdicts: Iterable[Verdict]) -> "DraftCounts":
        counts = self
        for verdict in verdicts:
            if verdict.sampled:
                counts = replace(
                    counts,
                    num_shares=counts.num_shares + 1,
                    num_tokens=counts.num_tokens + len(verdict.kept),
                    proposed=raised(counts.proposed, len(verdict.drafts), len(verdict.drafts)),
                    accepted=raised(counts.accepted, verdict.num_accepted, len(verdict.drafts)),
                )
        return counts


def raised(counts: Sequence[int], first: int, length: int) -> tuple[int, ...]:
    """Return the counts, at least `length` of them, the `first` ones one higher."""
    padded = [*counts, *[0] * (length - len(counts))]
    return tuple(count + (place < first) for place, count in enumerate(padded))


def verdicts_of(steps: Sequence[StepRecord]) -> list[list[Verdict]]:
    """Return for each step the verdicts on its shares, in the order of the plan. The steps follow each other.

    A step that was planned before the verdict on its predecessor took all drafts there for right: its shares are moved
    back by those rejected since.
    """
    applied_in = {record["update_of"]: record for record in steps if record["update_of"] is not None}
    found: list[list[Verdict]] = []
    for record in steps:
        # With async scheduling the step before was applied after this plan was made.
        late = record["step"] - 1 if applied_in.get(record["step"] - 1) is record else None
        known = [] if late is None or late < steps[0]["step"] else found[late - steps[0]["step"]]
        before = {verdict.request_id: verdict for verdict in known}
        applied = applied_in.get(record["step"])
        kept = {} if applied is None else dict(applied["output"])
        gone = set() if applied is None or applied is record else gone_between(record, applied)
        found.append([])
        for share in record["scheduled"]:
            i, drafts = share["id"], share.get("drafts", [])
            too_far = before[i].num_rejected if share["kind"] == "running" and i in before else 0
            computed, sampled = share["computed"] - too_far, record["sampled"].get(i, [])
            in_vain = not sampled and i in gone
            found[-1].append(
                Verdict(i, computed, share["n"], drafts, sampled, kept.get(i, []), share["blocks"], in_vain)
            )
    return found


def gone_between(planned: StepRecord, applied: StepRecord) -> set[str]:
    """Return the requests that ended or lost their blocks between the plan of a step and its result."""
    ended = {request_id for request_id, *_ in planned["finished"]}
    victims = {victim for victim, *_ in applied["preempted"]}
    return ended | victims | {*planned["aborted_before_update"], *applied["aborted"], *applied["aborted_before_update"]}
