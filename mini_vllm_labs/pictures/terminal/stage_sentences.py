"""Describes the gain from each phase of the ablation in one sentence that includes the phase's figures."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from mini_vllm_labs.pictures.text import counted
from mini_vllm_labs.runs.workloads.ablation import LineupResult
from mini_vllm_labs.runs.workloads.percentiles import percentiles
from mini_vllm_labs.runs.workloads.simulated_electives import WRONG_ONE_IN

SENTENCES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def mean_ms(seconds: Sequence[float]) -> float:
    return 1e3 * fmean(seconds) if seconds else 0.0


def p95_ms(seconds: Sequence[float]) -> float:
    """Return the 95th percentile in milliseconds, or 0 if there are no values."""
    return 1e3 * percentiles(seconds, [95])[0]


def describe(stage: LineupResult, before: LineupResult | None, first: LineupResult) -> str:
    if wrong := first_other_answer(stage, first):
        return (
            f"{wrong} got a different output from that of phase 1 alone, and no phase may change an output: "
            f"mini-vllm oracle finds the step."
        )
    phase = str(stage.last_phase if before else 1)
    text: str = SENTENCES["phases"][phase]
    if before is None:
        return text.format(now=stage)
    if before.num_stalled or stage.num_stalled:
        text = SENTENCES["if_stalled"].get(phase, text)
    if stage.last_phase == 6 and stage.decisions != before.decisions:
        text = SENTENCES["other_decisions"]
    return text.format(now=stage, before=before, **figures(stage, before))


def figures(now: LineupResult, before: LineupResult) -> dict[str, object]:
    """Return the values that the sentences need beyond the two results' fields; pairs are (now, before)."""
    both, more = (now, before), now.num_computed_tokens - before.num_computed_tokens
    steps = enumerate(zip(now.decisions, before.decisions, strict=False))  # either list may be longer
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
    """Return a request whose outputs differ, or None. A stall may have truncated an output."""
    if stage.lineup.runner != first.lineup.runner:
        return None
    for request_id, mine in stage.token_ids.items():
        theirs = first.token_ids.get(request_id, [])
        length = min(len(mine), len(theirs))
        if mine[:length] != theirs[:length]:
            return request_id
    return None
