"""Counts accepted and rejected drafts step by step with a fold over `StepRecord`s, without an engine."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mini_vllm.core.step_record import StepRecord

STAND_IN = -1  # replaces a draft that was not known when the step was planned


@dataclass(frozen=True)
class Verdict:
    """One request's share of a step and the tokens sampled for it.

    `num_computed` counts the tokens computed before this step, and `num_scheduled` includes the `drafts`. `sampled`
    contains the accepted drafts and one more token, or is empty; `kept` contains the tokens that became output.
    `in_vain` is true if the request ended or was preempted before the result arrived.
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
        """The number of drafts that the target confirmed."""
        return max(0, len(self.sampled) - 1)

    @property
    def num_rejected(self) -> int:
        """The number of drafts rolled back: the first wrong draft and all drafts after it."""
        return len(self.drafts) - self.num_accepted

    @property
    def num_planned(self) -> int:
        """The number of computed tokens if all drafts are right."""
        return self.num_computed + self.num_scheduled

    @property
    def num_computed_after(self) -> int:
        """The number of computed tokens after the rejected drafts have been rolled back."""
        return self.num_planned - self.num_rejected


@dataclass(frozen=True)
class DraftCounts:
    """The counts of a run so far. `proposed` and `accepted` count the drafts at each position.

    `num_shares` counts the shares that sampled tokens, one per request and step; `num_tokens` counts the tokens that
    they kept.
    """

    num_shares: int = 0
    num_tokens: int = 0
    proposed: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()

    @property
    def tokens_per_step(self) -> float:
        """The average number of tokens that a request gets from a step, or 0 before the first step."""
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
    """Pad the counts to at least `length`, then add 1 to each of the first `first` counts."""
    padded = [*counts, *[0] * (length - len(counts))]
    return tuple(count + (place < first) for place, count in enumerate(padded))


def verdicts_of(steps: Sequence[StepRecord]) -> list[list[Verdict]]:
    """Return the verdicts on each step's shares, in the plan's order. The steps must be consecutive.

    A step planned before its predecessor's verdict assumed that all of the predecessor's drafts were right. The shares
    of such a step are therefore moved back by the number of drafts rejected since then.
    """
    applied_in = {record["update_of"]: record for record in steps if record["update_of"] is not None}
    found: list[list[Verdict]] = []
    for record in steps:
        # With async scheduling, this plan was made before the previous step was applied.
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
    """Return the requests that ended or lost their blocks between a step's plan and its result."""
    ended = {request_id for request_id, *_ in planned["finished"]}
    victims = {victim for victim, *_ in applied["preempted"]}
    return ended | victims | {*planned["aborted_before_update"], *applied["aborted"], *applied["aborted_before_update"]}
