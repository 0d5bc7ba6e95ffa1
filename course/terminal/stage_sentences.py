"""What each phase of the ablation gains, as a sentence made of its figures."""

from collections.abc import Callable, Sequence
from statistics import fmean

from course.views.text import counted
from course.workloads.ablation import LineupResult
from course.workloads.percentiles import percentiles
from course.workloads.simulated_electives import WRONG_ONE_IN


def mean_ms(seconds: Sequence[float]) -> float:
    """Return the mean in milliseconds; 0 without values."""
    return 1e3 * fmean(seconds) if seconds else 0.0


def p95_ms(seconds: Sequence[float]) -> float:
    """Return the 95th percentile in milliseconds; 0 without values."""
    return 1e3 * percentiles(seconds, [95])[0]


def describe(stage: LineupResult, before: LineupResult | None, first: LineupResult) -> str:
    """Return the sentence of one lineup. `before` is the lineup with one phase less, `first` the first one."""
    if wrong := first_other_answer(stage, first):
        return (
            f"{wrong} got a different output from that of phase 1 alone, and no phase may change an output: "
            f"mini-vllm oracle finds the step."
        )
    if before is None:
        return _phase1(stage)
    return SENTENCES[stage.last_phase](stage, before)


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


def _phase1(stage: LineupResult) -> str:
    return (
        f"Every request reserves memory for the longest possible output: at most {stage.most_running} run at once, "
        f"and {stage.mean_empty:.0%} of the memory they hold stays empty."
    )


def _phase2(stage: LineupResult, before: LineupResult) -> str:
    text = (
        f"Blocks as they are needed, {stage.mean_empty:.0%} of them empty: {stage.most_running} run at once "
        f"instead of {before.most_running}."
    )
    if stage.num_stalled:
        text += f" But without preemption memory fills up: {stage.num_stalled} of {stage.num_requests} requests stall."
    return text


def _phase3(stage: LineupResult, before: LineupResult) -> str:
    text = "Preemption lets every request finish" if before.num_stalled and not stage.num_stalled else "Preemption"
    preempted, again = counted(stage.num_preemptions, "preemption"), counted(stage.num_recomputed_tokens, "token")
    return f"{text}: {preempted}, {again} computed again."


def _phase4(stage: LineupResult, before: LineupResult) -> str:
    text = (
        f"{stage.hit_rate:.0%} of the tokens come from the prefix cache: {stage.num_computed_tokens:,} are computed "
        f"instead of {before.num_computed_tokens:,}"
    )
    if before.num_stalled or stage.num_stalled:
        return f"{text}."
    return (
        f"{text}, {stage.most_running} run at once instead of {before.most_running}, the first token comes after "
        f"{mean_ms(stage.first_token_latencies):.0f} ms instead of {mean_ms(before.first_token_latencies):.0f}."
    )


def _phase5(stage: LineupResult, before: LineupResult) -> str:
    text = "Long prompts are split into chunks"
    if before.num_stalled or stage.num_stalled:
        return f"{text}."
    return (
        f"{text}: 95 of 100 tokens come within {p95_ms(stage.inter_token_latencies):.0f} ms of the one before instead "
        f"of {p95_ms(before.inter_token_latencies):.0f}. The first token waits for its chunks, and at the guard: "
        f"{mean_ms(stage.first_token_latencies):.0f} ms instead of {mean_ms(before.first_token_latencies):.0f}."
    )


def _phase6(stage: LineupResult, before: LineupResult) -> str:
    if stage.decisions == before.decisions:
        return (
            f"The embedded model generates instead of the fake model. Not one decision differs in {stage.num_steps} "
            f"steps: scheduling depends on lengths, not on text. (The time is simulated here too.)"
        )
    pairs = zip(stage.decisions, before.decisions, strict=False)
    step = next((step for step, (mine, theirs) in enumerate(pairs) if mine != theirs), "the last one")
    return (
        f"The embedded model generates, and the decisions differ from step {step} on: an output has a different length."
    )


def _phase7(stage: LineupResult, before: LineupResult) -> str:
    if before.num_stalled or stage.num_stalled:
        return "Drafts are verified many at a time."
    return (
        f"Drafts of which one in {WRONG_ONE_IN} is wrong: {stage.num_steps} steps instead of {before.num_steps}, and "
        f"{stage.num_computed_tokens:,} tokens computed instead of {before.num_computed_tokens:,}, because rejected "
        f"ones are computed too. A token comes {mean_ms(stage.inter_token_latencies):.1f} ms after the one before "
        f"instead of {mean_ms(before.inter_token_latencies):.1f}."
    )


def _phase8(stage: LineupResult, before: LineupResult) -> str:
    more = stage.num_computed_tokens - before.num_computed_tokens
    drafts = "" if stage.lineup.speculation == "absent" else ", and drafts are planned before they are known"
    return (
        f"Each step is planned while the one before it is computed. Planning takes no simulated time, so only the "
        f"price is seen here: {counted(abs(more), 'token')} {'more' if more >= 0 else 'fewer'} planned, as a request "
        f"that has ended is in one more step{drafts}. What it hides on this machine: mini-vllm bench async."
    )


SENTENCES: dict[int, Callable[[LineupResult, LineupResult], str]] = {
    2: _phase2,
    3: _phase3,
    4: _phase4,
    5: _phase5,
    6: _phase6,
    7: _phase7,
    8: _phase8,
}
