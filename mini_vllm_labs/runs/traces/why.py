"""Turns a trace's recorded reasons into sentences: per step, per request's lifetime, and in total."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from mini_vllm.core.step_record import ScheduledRecord, StepRecord
from mini_vllm.engine.reasons import REASONS, Found, cause_of, limit_sentence, sentence_of

WAITS = {
    "seats": "for a seat",
    "tokens": "for tokens",
    "blocks": "for blocks",
    "guard": "for the admission guard",
    "prompt": "for its whole prompt",
    "closed": "while admission was closed",
    "victim": "as a victim",
    "queue": "behind another request",
    "grammar": "for its grammar",
    "K/V": "for its K and V",
    "adapter": "for a place for its adapter",
    "image": "for its image",
    "draft": "for its drafts",
    "interval": "for a step with prompts",
    "policy": "by the policy's choice",
    "pause": "in a pause",
    "result": "for a step in flight",
    "order": "after the loop ended",
}
"""What a request waits for, by the mark of its reason. The marks of mistakes are not here."""
REFUSERS = {
    **dict.fromkeys(("blocks", "reservation", "refused", "blocks_in_flight"), "allocate_slots"),
    **dict.fromkeys(("preempted", "self_preempted"), "make_room"),
    "guard": "admits",
    "whole_prompt": "num_new_tokens",
}
"""The function that refused, by reason. For the others it is `schedule_step` or a gate."""
ENDS = {"stop": "it ends at a stop token", "length": "it ends at its maximum length", "abort": "it was aborted"}


def require_reasons(steps: Sequence[StepRecord]) -> None:
    """Raise `ValueError` if no step has reasons."""
    if not any("reasons" in step for step in steps):
        raise ValueError(
            "this trace contains no reasons: traces recorded by this engine contain them, but vLLM's do not"
        )


def tokens_of(num_tokens: int) -> str:
    return f"{num_tokens} token{'s' * (num_tokens != 1)}"


def share_sentence(step: StepRecord, share: ScheduledRecord) -> str:
    """Return what a request got in a step, and which limit applied to it."""
    found = step.get("limits", {}).get(share["id"], {"limit": "need"})
    cached = f", after a hit of {share['hit']}" if share.get("hit") else ""
    return f"it gets {tokens_of(share['n'])}{cached}, limited by {limit_sentence(found)}"


def lines_of(step: StepRecord) -> Iterator[tuple[str, str]]:
    """Yield a step's unfinished requests, those with tokens first, each with its tokens or the reason it got none."""
    for share in step["scheduled"]:
        yield share["id"], share_sentence(step, share)
    for name, found in step.get("reasons", {}).items():
        yield name, f"nothing: {sentence_of(found)}"


def life_of(steps: Sequence[StepRecord], request_id: str) -> list[str]:
    """Return a request's lifetime as sentences; a run of equal reasons becomes one sentence with the last step's
    numbers.

    Raises `ValueError` if the trace has no such request.
    """
    if not any(request_id in step["added"] for step in steps):
        names = ", ".join(name for step in steps for name in step["added"])
        raise ValueError(f"the trace has no request {request_id!r}; its requests are {names}")
    stages = [(kind, text, step) for step in steps for kind, text in _stages(step, request_id)]
    sentences = []
    for kind, group in groupby(stages, key=lambda stage: stage[0]):
        members = list(group)
        (_, _, first), (_, text, last) = members[0], members[-1]
        when = f"Step {first['step']}" if first is last else f"Steps {first['step']} to {last['step']}"
        same = kind == "decode" and len(members) > 1
        sentences.append(f"{when}: {'it gets one token in each step' if same else text}.")
    if waited := waited_for(steps).get(request_id):
        sentences.append(f"In all {waited_sentence(waited)}.")
    return sentences


def _stages(step: StepRecord, request_id: str) -> Iterator[tuple[str, str]]:
    if request_id in step["added"]:
        yield "arrives", "it arrives"
    for share in step["scheduled"]:
        if share["id"] == request_id:
            is_decode = share["kind"] == "running" and share["n"] == 1
            yield "decode" if is_decode else f"share {step['step']}", share_sentence(step, share)
    if found := step.get("reasons", {}).get(request_id):
        verb = "it is preempted" if "preempted" in found["reason"] else "it waits"
        yield found["reason"], f"{verb}: {sentence_of(found)}"
    for name, reason, _ in step["finished"]:
        if name == request_id:
            yield "ends", ENDS.get(reason or "", f"it ends: {reason}")
    if request_id in step["aborted"] + step["aborted_before_update"]:
        yield "ends", ENDS["abort"]


def refuser_of(found: Found) -> str:
    """Return the name of the function that refused a request."""
    return REFUSERS.get(found["reason"], "gate" if REASONS[found["reason"]].label == "deferred" else "schedule_step")


def waited_for(steps: Iterable[StepRecord]) -> dict[str, Counter[str]]:
    """Count each request's steps without a token, keyed by the mark of each reason.

    A request after a refused one waits for the same thing, so its step counts under the refused request's reason.
    """
    waited: dict[str, Counter[str]] = {}
    for step in steps:
        reasons = step.get("reasons", {})
        for name, found in reasons.items():
            waited.setdefault(name, Counter())[cause_of(found, reasons).mark] += 1
    return waited


def waited_sentence(waited: Counter[str]) -> str:
    """Return a sentence such as `it waited 14 steps: 9 for blocks, 5 for a seat`, the main reason first."""
    parts = ", ".join(f"{number} {WAITS.get(mark, 'against a rule')}" for mark, number in waited.most_common())
    total = sum(waited.values())
    return f"it waited {total} step{'s' * (total != 1)}: {parts}"
