"""Panels of controls over runs of the lab's engine, each run in a new process."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from course.notebook.jobs import WorkloadRun
from course.notebook.lab import Lab
from course.notebook.notice import Notice
from course.views.knobs import Choice, Knob, Slide, Switch
from course.views.picture import Picture
from course.views.policy_comparison import PolicyComparison, PolicyResult, compare_policies, policy_panel
from course.views.show import panel
from course.views.time_machine import time_machine
from course.workloads.timed_request import TimedRequest
from mini_vllm.config import EngineConfig

if TYPE_CHECKING:
    from course.views.widgets import Panel

T = TypeVar("T")
MOST_REMEMBERED = 64
MOST_STEPS = 80


def engine_knobs(config: EngineConfig, step: int) -> list[Knob]:
    """Return a control for each setting of a small engine, set as in `config`, and one for the step."""
    return [
        Slide("num_gpu_blocks", "num_gpu_blocks", config.num_gpu_blocks or 21, 8, 64, 1, "blocks"),
        Slide("max_num_batched_tokens", "max_num_batched_tokens", config.max_num_batched_tokens, 4, 64, 1, "tokens"),
        Slide(
            "long_prefill_token_threshold",
            "long_prefill_token_threshold (0: none)",
            config.long_prefill_token_threshold, 0, 32, 1, "tokens",
        ),
        Slide("max_num_seqs", "max_num_seqs", config.max_num_seqs, 1, 8, 1, "requests"),
        Choice("policy", "policy", config.policy, ("fcfs", "priority")),
        Switch("enable_prefix_caching", "enable_prefix_caching", config.enable_prefix_caching),
        Switch("enable_chunked_prefill", "enable_chunked_prefill", config.enable_chunked_prefill),
        Slide("step", "look at step", step, 0, MOST_STEPS, 1),
    ]  # fmt: skip


def engine_panel(lab: Lab, arrivals: Sequence[TimedRequest], config: EngineConfig, step: int = 0) -> "Panel | Notice":
    """Return one control for each setting over the run of the workload on the fake model.

    The sentence below compares a run with the first one.
    """
    first = lab.play(arrivals, config)
    if isinstance(first, Notice):
        return first
    start = first

    @lru_cache(MOST_REMEMBERED)
    def play(chosen: EngineConfig) -> WorkloadRun:
        return require_result(lab.play(arrivals, chosen))

    def draw(step: int, **values: Any) -> Picture:
        run = play(replace(config, **values))
        film = time_machine(run.recording)
        picture = film[min(step, len(film) - 1)]
        return replace(picture, sentence=compared_with(start, run))

    return panel(engine_knobs(config, step), draw)


def bench(lab: Lab) -> "Panel | Notice":
    """Return the policy comparison, with the lab's engine serving the requests."""
    first = lab.run(compare_policies, PolicyComparison())
    if isinstance(first, Notice):
        return first

    def compare(comparison: PolicyComparison) -> list[PolicyResult]:
        return require_result(lab.run(compare_policies, comparison))

    return policy_panel(compare)


def require_result(result: T | Notice) -> T:
    """Return a result. Raises `ValueError` with the text of a `Notice`, which a panel shows."""
    if isinstance(result, Notice):
        raise ValueError(str(result))
    return result


def compared_with(first: WorkloadRun, run: WorkloadRun) -> str:
    """Return the counts of a run beside those of the first one, and whether their answers are equal."""
    pairs = zip(counts(run), counts(first), strict=True)
    figures = ", ".join(f"{name} {now} (first {then})" for (name, now), (_, then) in pairs)
    same = "The answers are the same, token for token." if run.token_ids == first.token_ids else "DIFFERENT answers!"
    return f"{figures}. {run.stalled or same}"


def counts(run: WorkloadRun) -> list[tuple[str, int]]:
    """Return the counts of a run."""
    steps = run.recording.steps
    state = run.recording.state(len(steps) - 1)
    return [
        ("Steps", len(steps)),
        ("preemptions", state.num_preemptions),
        ("tokens from the cache", state.num_hit_tokens),
        ("tokens computed", state.num_computed_tokens),
        ("computed again", state.num_recomputed_tokens),
    ]
