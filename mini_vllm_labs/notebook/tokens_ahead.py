"""Draws drafts and steps in flight. If given a `Notice` instead of a run, a function returns it unchanged."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from mini_vllm_labs.fresh.jobs import ChatRun, WorkloadRun
from mini_vllm_labs.notebook.charts import Charts, Measure, bar_charts, count
from mini_vllm_labs.notebook.notice import Notice, show
from mini_vllm_labs.notebook.recorded_mark import first_mark, marked_film, marked_picture
from mini_vllm_labs.notebook.run_facts import RunFacts
from mini_vllm_labs.pictures.drafts import draft_film
from mini_vllm_labs.pictures.lanes import lanes, lanes_panel
from mini_vllm_labs.pictures.picture import Picture
from mini_vllm_labs.pictures.show import player
from mini_vllm_labs.runs.traces.recording import Recording

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.panels import Panel
    from mini_vllm_labs.pictures.widgets import Player

T = TypeVar("T")
LEGEND = (
    "Tokens per step: what a request gets from a step on average. Drafts: verified. "
    "Computed: tokens. In vain: those of them whose request had ended."
)
MEASURES: list[Measure[RunFacts]] = [
    Measure("steps", lambda run: run.num_steps, count),
    Measure("tokens per step", lambda run: run.tokens_per_step, lambda value: f"{value:.2f}"),
    Measure("drafts", lambda run: run.num_drafts, count),
    Measure("accepted", lambda run: run.num_accepted, count),
    Measure("computed", lambda run: run.num_computed, count),
    Measure("in vain", lambda run: run.num_in_vain, count),
]


def watch_drafts(run: ChatRun | WorkloadRun | Notice, step: int | None = None) -> "Player | Notice":
    """Show a run's drafts step by step; by default, begin at a step with both right and wrong drafts."""

    def draw(run: ChatRun | WorkloadRun) -> "Player":
        texts = run.texts if isinstance(run, ChatRun) else None
        return player(marked_film(draft_film(run.recording, texts=texts), first_mark([run])), step)

    return show(draw, run)


def watch_lanes(runs: Mapping[str, ChatRun | WorkloadRun | Notice]) -> "Panel | Notice":
    """Show when the engine and runner work in several runs, in simulated time, with knobs for their times per step."""
    return of_recordings(
        runs, lambda recordings, mark: lanes_panel(recordings, lambda picture: marked_picture(picture, mark))
    )


def draw_lanes(
    runs: Mapping[str, ChatRun | WorkloadRun | Notice], plan_ms: float, compute_ms: float
) -> Picture | Notice:
    """Draw when the engine and runner work in several runs, given the time in ms that each needs per step."""
    return of_recordings(runs, lambda recordings, mark: marked_picture(lanes(recordings, plan_ms, compute_ms), mark))


def of_recordings(
    runs: Mapping[str, ChatRun | WorkloadRun | Notice], draw: Callable[[dict[str, Recording], str], T]
) -> T | Notice:
    """Call `draw` with the runs' recordings and their mark, or return the first `Notice` among the runs."""
    recordings = dict[str, Recording]()
    for name, run in runs.items():
        if isinstance(run, Notice):
            return run
        recordings[name] = run.recording
    return draw(recordings, first_mark(runs.values()))


def draft_figures(runs: Mapping[str, ChatRun | WorkloadRun | Notice]) -> Charts | Notice:
    """Chart what each run gains and loses from drafts, or return the first `Notice` among the runs."""
    facts = {name: run if isinstance(run, Notice) else RunFacts(run) for name, run in runs.items()}
    return bar_charts(facts, MEASURES, [LEGEND])
