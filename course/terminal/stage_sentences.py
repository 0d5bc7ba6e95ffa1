"""What each phase of the ablation gains, as a sentence made of its figures."""

from collections.abc import Sequence
from statistics import fmean

from course.views.text import counted
from course.workloads.ablation import LineupResult
from course.workloads.percentiles import percentiles
from course.workloads.simulated_electives import WRONG_ONE_IN

SENTENCES = {
    1: "Every request reserves memory for the longest possible output: at most {now.most_running} run at once, and "
    "{now.mean_empty:.0%} of the memory they hold stays empty.",
    2: "Blocks as they are needed, {now.mean_empty:.0%} of them empty: {now.most_running} run at once instead of "
    "{before.most_running}.{stall}",
    3: "Preemption{finish}: {preempted}, {again} computed again.",
    4: "{now.hit_rate:.0%} of the tokens come from the prefix cache: {now.num_computed_tokens:,} are computed instead "
    "of {before.num_computed_tokens:,}, {now.most_running} run at once instead of {before.most_running}, the first "
    "token comes after {ttft[0]:.0f} ms instead of {ttft[1]:.0f}.",
    5: "Long prompts are split into chunks: 95 of 100 tokens come within {p95[0]:.0f} ms of the one before instead of "
    "{p95[1]:.0f}. The first token waits for its chunks, and at the guard: {ttft[0]:.0f} ms instead of {ttft[1]:.0f}.",
    6: "The embedded model generates instead of the fake model. Not one decision differs in {now.num_steps} steps: "
    "scheduling depends on lengths, not on text. (The time is simulated here too.)",
    7: "Drafts of which one in {wrong} is wrong: {now.num_steps} steps instead of {before.num_steps}, and "
    "{now.num_computed_tokens:,} tokens computed instead of {before.num_computed_tokens:,}, because rejected ones are "
    "computed too. A token comes {itl[0]:.1f} ms after the one before instead of {itl[1]:.1f}.",
    8: "Each step is planned while the one before it is computed. Planning takes no simulated time, so only the price "
    "is seen here: {more} planned, as a request that has ended is in one more step{drafts}. What it hides on this "
    "machine: mini-vllm bench async.",
}
IF_STALLED = {
    4: "{now.hit_rate:.0%} of the tokens come from the prefix cache: {now.num_computed_tokens:,} are computed instead "
    "of {before.num_computed_tokens:,}.",
    5: "Long prompts are split into chunks.",
    7: "Drafts are verified many at a time.",
}
"""The times of a lineup that stalled are those of its first requests alone, so they are not compared."""
OTHER_DECISIONS = (
    "The embedded model generates, and the decisions differ from step {step} on: an output has a different length."
)


def mean_ms(seconds: Sequence[float]) -> float:
    return 1e3 * fmean(seconds) if seconds else 0.0


def p95_ms(seconds: Sequence[float]) -> float:
    """Return the 95th percentile in milliseconds; 0 without values."""
    return 1e3 * percentiles(seconds, [95])[0]


def describe(stage: LineupResult, before: LineupResult | None, first: LineupResult) -> str:
    if wrong := first_other_answer(stage, first):
        return (
            f"{wrong} got a different output from that of phase 1 alone, and no phase may change an output: "
            f"mini-vllm oracle finds the step."
        )
    if before is None:
        return SENTENCES[1].format(now=stage)
    text = SENTENCES[stage.last_phase]
    if before.num_stalled or stage.num_stalled:
        text = IF_STALLED.get(stage.last_phase, text)
    if stage.last_phase == 6 and stage.decisions != before.decisions:
        text = OTHER_DECISIONS
    return text.format(now=stage, before=before, **figures(stage, before))


def figures(now: LineupResult, before: LineupResult) -> dict[str, object]:
    """Return what the sentences name besides the fields of the two results; pairs are (now, before)."""
    both, more = (now, before), now.num_computed_tokens - before.num_computed_tokens
    steps = enumerate(zip(now.decisions, before.decisions, strict=False))  # either may be longer
    return {
        "ttft": [mean_ms(one.first_token_latencies) for one in both],
        "itl": [mean_ms(one.inter_token_latencies) for one in both],
        "p95": [p95_ms(one.inter_token_latencies) for one in both],
        "preempted": counted(now.num_preemptions, "preemption"),
        "again": counted(now.num_recomputed_tokens, "token"),
        "finish": " lets every request finish" if before.num_stalled and not now.num_stalled else "",
        "stall": f" But without preemption memory fills up: {now.num_stalled} of {now.num_requests} requests stall."
        if now.num_stalled
        else "",
        "step": next((step for step, (mine, theirs) in steps if mine != theirs), "the last one"),
        "wrong": WRONG_ONE_IN,
        "more": f"{counted(abs(more), 'token')} {'more' if more >= 0 else 'fewer'}",
        "drafts": "" if now.lineup.speculation == "absent" else ", and drafts are planned before they are known",
    }


def first_other_answer(stage: LineupResult, first: LineupResult) -> str | None:
    """Return a request whose outputs differ. A stall may have cut one of them short."""
    if stage.lineup.runner != first.lineup.runner:
        return None
    for request_id, mine in stage.token_ids.items():
        theirs = first.token_ids.get(request_id, [])
        length = min(len(mine), len(theirs))
        if mine[:length] != theirs[:length]:
            return request_id
    return None
