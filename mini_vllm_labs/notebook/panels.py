"""Builds panels with controls for runs of the lab's engine; each run uses a new process."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, TypeVar

from mini_vllm.config import EngineConfig
from mini_vllm_labs.fresh.jobs import WorkloadRun
from mini_vllm_labs.notebook.lab import Lab
from mini_vllm_labs.notebook.notice import Notice
from mini_vllm_labs.notebook.recorded_mark import marked_film, marked_picture
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.knobs import Knob, Menu, Slider, Switch
from mini_vllm_labs.pictures.picture import WIDTH, Picture
from mini_vllm_labs.pictures.policy_comparison import PolicyComparison, PolicyResult, compare_policies, policy_panel
from mini_vllm_labs.pictures.time_machine import pictures, time_machine
from mini_vllm_labs.runs.starter_status import starter_stamps
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.panels import FilmPanel, Panel

T = TypeVar("T")
MAX_REMEMBERED = 64  # dragging a knob often returns it to earlier values


def engine_knobs(config: EngineConfig) -> list[Knob]:
    """Return a control for each setting of a small engine, with its value from `config`."""
    return [
        Slider("num_gpu_blocks", "num_gpu_blocks", config.num_gpu_blocks or 21, 8, 64, 1, "blocks"),
        Slider("max_num_batched_tokens", "max_num_batched_tokens", config.max_num_batched_tokens, 4, 64, 1, "tokens"),
        Slider(
            "long_prefill_token_threshold",
            "long_prefill_token_threshold",
            config.long_prefill_token_threshold, 0, 32, 1, "tokens", "none",
        ),
        Slider("max_num_seqs", "max_num_seqs", config.max_num_seqs, 1, 8, 1, "requests"),
        Menu("policy", "policy", config.policy, ("fcfs", "priority")),
        Switch("enable_prefix_caching", "enable_prefix_caching", config.enable_prefix_caching),
        Switch("enable_chunked_prefill", "enable_chunked_prefill", config.enable_chunked_prefill),
    ]  # fmt: skip


def engine_panel(
    lab: Lab, arrivals: Sequence[TimedRequest], config: EngineConfig, step: int = 0
) -> "FilmPanel | Notice":
    """Return controls for all settings above a playable run of the workload on the fake model.

    Tiles compare each later run with the first.
    """
    from mini_vllm_labs.pictures.panels import FilmPanel

    first = lab.play(arrivals, config)
    if isinstance(first, Notice):
        return first
    start, ready = first, lab.kept_ready()  # inside a closure, mypy no longer knows that `first` is a run

    @lru_cache(MAX_REMEMBERED)
    def play(chosen: EngineConfig, code: object) -> ComparedRun:
        return ComparedRun(start, require_result(ready.play(arrivals, chosen)))

    return FilmPanel(engine_knobs(config), lambda **values: play(replace(config, **values), starter_stamps()), step)


@dataclass(frozen=True)
class ComparedRun:
    first: WorkloadRun
    run: WorkloadRun

    @property
    def num_steps(self) -> int:
        return len(self.run.recording.with_stuck_step().steps)

    @property
    def comparison(self) -> list[tuple[str, str, str]]:
        pairs = zip(counts(self.first), counts(self.run), strict=True)
        return [(name, str(was), str(now)) for (name, was), (_, now) in pairs]

    @property
    def sentence(self) -> str:
        """The reason why the run stalled, or whether its answers match the first run's, and where the plans differ."""
        same = self.run.token_ids == self.first.token_ids
        told = self.run.stalled or ("The answers are the same, token for token." if same else "DIFFERENT answers!")
        plans = zip_longest(plans_of(self.first), plans_of(self.run))
        step = next((step for step, (was, now) in enumerate(plans) if was != now), None)
        return told if step is None else f"{told} Step {step} is the first with another plan."

    def picture(self, step: int, width: float = WIDTH) -> Picture:
        return marked_picture(pictures(self.run.recording, [step], width, brief=True)[0], self.run.recorded)

    def film(self) -> Film:
        return marked_film(time_machine(self.run.recording, brief=True), self.run.recorded)


def bench(lab: Lab) -> "Panel | Notice":
    """Return the policy comparison, in which the lab's engine serves the requests."""
    first = lab.run(compare_policies, PolicyComparison())
    if isinstance(first, Notice):
        return first
    ready = lab.kept_ready()

    def compare(comparison: PolicyComparison) -> list[PolicyResult]:
        return require_result(ready.run(compare_policies, comparison))

    return policy_panel(compare, starter_stamps)


def require_result(result: T | Notice) -> T:
    """Return a result. Raises `ValueError` with the text of a `Notice`, for a panel to show."""
    if isinstance(result, Notice):
        raise ValueError(str(result))
    return result


def plans_of(run: WorkloadRun) -> list[list[tuple[str, int]]]:
    """Return each step's requests and their tokens, without the blocks, whose numbers depend on the pool."""
    return [[(share["id"], share["n"]) for share in record["scheduled"]] for record in run.recording.steps]


def counts(run: WorkloadRun) -> list[tuple[str, int]]:
    """Return the counts of a run."""
    steps = run.recording.steps
    state = run.recording.state(len(steps) - 1)
    return [
        ("steps", len(steps)),
        ("preemptions", state.num_preemptions),
        ("tokens from the cache", state.num_hit_tokens),
        ("tokens computed", state.num_computed_tokens),
        ("computed again", state.num_recomputed_tokens),
    ]
