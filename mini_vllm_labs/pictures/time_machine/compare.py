"""Draws two runs of a workload step by step, side by side if they fit, with the first difference marked."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.parts import WIDTHS, Part, headline_part, most_lines, page, side_by_side, span_of, stacked
from mini_vllm_labs.pictures.picture import WIDTH, Layer, Picture
from mini_vllm_labs.pictures.reason_mark import SAMPLES
from mini_vllm_labs.pictures.time_machine.budget import budget_part, with_hits
from mini_vllm_labs.pictures.time_machine.machine import (
    Outlook,
    axes_of,
    choices,
    figures,
    has_reasons,
    headline,
    text_alternative,
)
from mini_vllm_labs.pictures.time_machine.memory import memory_part
from mini_vllm_labs.pictures.time_machine.queues import queues_part, record_of
from mini_vllm_labs.pictures.time_machine.refusals import marks_of
from mini_vllm_labs.pictures.time_machine.shelf import Shelf
from mini_vllm_labs.pictures.time_machine.timeline import MAX_HEIGHT, Timeline
from mini_vllm_labs.pictures.time_machine.wait_rows import WaitRows
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.traces.run_state import RunState
from mini_vllm_labs.runs.traces.sentences import events_in

NAMES = ("mine", "reference")
PREFIXES = ("first-", "second-")
MIN_WIDTH_BESIDE, GAP = 1000, 4  # at this width and above, the runs are drawn side by side
MAX_HEIGHT_ABOVE = 64  # height of a timeline when one run is drawn above the other
# The fields to compare, in step order, with their display names.
FIELDS = {
    "added": "the arrivals",
    "scheduled": "the scheduled requests",
    "preempted": "the preempted requests",
    "evicted": "the evicted blocks",
    "free_after_schedule": "the number of free blocks",
    "output": "the sampled tokens",
    "finished": "the finished requests",
    "running_after": "the running queue",
    "waiting_after": "the waiting queue",
}


@dataclass(frozen=True)
class RunDifference:
    """The first step in which two runs differ. `field` is empty if one of the runs ends at that step."""

    step: int
    field: str

    def describe(self) -> str:
        return FIELDS[self.field] if self.field else "the length: one run has ended"


def first_difference(first: Sequence[StepRecord], second: Sequence[StepRecord]) -> RunDifference | None:
    """Return the first difference between two traces, or None if they are equal."""
    for step, records in enumerate(zip(first, second, strict=False)):
        for field in FIELDS:
            # Compare as JSON, which does not distinguish tuples from lists, so that a live step equals its copy loaded
            # from a file.
            one, other = (json.dumps(record[field], sort_keys=True) for record in records)  # type: ignore[literal-required]
            if one != other:
                return RunDifference(step, field)
    return RunDifference(min(len(first), len(second)), "") if len(first) != len(second) else None


def compare(first: Recording, second: Recording, names: tuple[str, str] = NAMES) -> Film:
    """Return a film of both runs. A request has the same colour in both; red bars mark differences.

    The runs should have the same requests. Raises `ValueError` if the two names are the same.
    """
    if names[0] == names[1]:
        raise ValueError(f"both runs are called {names[0]!r}; give them different names")
    runs = with_common_titles(first.with_stuck_step(), second.with_stuck_step())
    num_steps, outlooks = max(len(run.steps) for run in runs), [Outlook.of(run) for run in runs]
    difference = first_difference(runs[0].steps, runs[1].steps)
    frames = [PairFrame(runs, outlooks, names, difference, width) for width in WIDTHS]
    events = [
        [f"{name}: {outlook.sentence(step)}" for name, outlook in zip(names, outlooks, strict=True)]
        for step in range(num_steps)
    ]
    sentences = [frames[0].sentence(step, told) for step, told in enumerate(events)]
    num_lines: dict[float, int] = {width: most_lines(sentences, width) for width in WIDTHS}
    drawn: dict[float, list[Picture]] = {width: [] for width in WIDTHS}
    pair = [RunState(run.info) for run in runs]
    for step in range(num_steps):
        for state, run in zip(pair, runs, strict=True):
            if step < len(run.steps):
                state.advance(run.steps[step])
        for frame in frames:
            drawn[frame.width].append(frame.picture(step, pair, events[step], num_lines[frame.width]))
    follow = max((choices(run.info, shelf_for(runs, WIDTH)) for run in runs), key=len)
    return Film.of(drawn, follow, events=events_in(*runs), has_time=True)


def with_common_titles(first: Recording, second: Recording) -> tuple[Recording, Recording]:
    """Return both recordings, each listing the requests of both runs, so that numbers, labels and colours agree."""
    titles = first.info.titles | {i: t for i, t in second.info.titles.items() if i not in first.info.titles}
    lengths = second.info.num_prompt_tokens | first.info.num_prompt_tokens
    info = [replace(run.info, titles=titles, num_prompt_tokens=lengths) for run in (first, second)]
    return replace(first, info=info[0]), replace(second, info=info[1])


def shelf_for(runs: Sequence[Recording], width: float) -> Shelf:
    return Shelf.fitting(runs, span_of(width), most_lines=1)


class PairFrame:
    """The layout of all pictures at one width: two runs stacked, or side by side at half the width."""

    def __init__(
        self,
        runs: Sequence[Recording],
        outlooks: Sequence[Outlook],
        names: tuple[str, str],
        difference: RunDifference | None,
        width: float,
    ) -> None:
        self.names, self.difference, self.width = names, difference, width
        self.is_wide = width >= MIN_WIDTH_BESIDE
        self.column = (width - GAP) / 2 if self.is_wide else width
        self.num_steps = [len(run.steps) for run in runs]
        self.shelf, self.hits = shelf_for(runs, self.column), with_hits(runs)
        # Waits are told in the text, and marked at the queues of both runs if a request waits in either of them.
        self.has_reasons = any(map(has_reasons, runs))
        self.waits = [WaitRows(run.info, run.steps, {}, 0) if self.has_reasons else None for run in runs]
        axes = axes_of([one.histories.num_tokens for one in outlooks], max(self.num_steps), span_of(self.column))
        mark = difference.step if difference else None
        high = MAX_HEIGHT if self.is_wide else MAX_HEIGHT_ABOVE
        self.timelines = [
            Timeline(run.info, outlook.histories, places, mark, high)
            for run, outlook, places in zip(runs, outlooks, axes, strict=True)
        ]

    def picture(self, step: int, pair: Sequence[RunState], events: Sequence[str], num_lines: int) -> Picture:
        """Draw both runs in one step; `events` describes the events in each."""
        runs = zip(pair, self.names, self.num_steps, self.timelines, self.waits, PREFIXES, strict=True)
        parts, texts, changed = list[Part](), list[str](), differing(*pair)
        for state, name, num_steps, timeline, waits, prefix in runs:
            marks = marks_of(state) if waits else None
            title = f"{name}: {headline(state, num_steps)}{', ended' if step >= num_steps else ''}"
            queues = queues_part(state, self.column, marks=marks)
            queues = replace(queues, legend={**queues.legend, **({"reasons": SAMPLES} if waits else {})})
            drawn = [budget_part(state, self.column, hits=self.hits), queues, memory_part(state, self.shelf)]
            marked = [with_bar(part, mark) for part, mark in zip(drawn, changed, strict=True)]
            rows = timeline.part(state, step, with_axis=self.is_wide or prefix == PREFIXES[1])
            parts.append(stacked([headline_part(title, figures(state), self.column), *marked, rows], prefix))
            if self.width == WIDTH:
                texts.append(f"{name}\n{text_alternative(state, timeline.histories, num_steps, waits)}")
        if self.is_wide:
            parts = [side_by_side(parts, self.column + GAP)]
        text = "\n\n".join(["\n".join([self.verdict(step), *events]), *texts]) if texts else ""
        title = f"{' and '.join(self.names)}, step {step}"
        return page(title, parts, self.sentence(step, events), text, self.width, num_lines)

    def sentence(self, step: int, events: Sequence[str]) -> str:
        """Compare the runs up to a step; from the first difference onwards, also describe each run's events."""
        told = events if self.difference and step >= self.difference.step else []
        return " ".join([self.verdict(step), *told])

    def verdict(self, step: int) -> str:
        both, difference = " and ".join(self.names), self.difference
        if difference is None:
            return f"{both} decide the same in every step."
        if step < difference.step:
            return f"{both} decide the same up to here. They diverge in step {difference.step}."
        if step == difference.step:
            return f"{both} diverge here: the first difference is in {difference.describe()}."
        return f"{both} diverged in step {difference.step}, in {difference.describe()}."


def differing(first: RunState, second: RunState) -> tuple[bool, bool, bool]:
    """Return whether the budgets, the queues, and the block tables differ."""
    records = [record_of(first), record_of(second)]
    shares = [[(share["id"], share["n"]) for share in record["scheduled"]] for record in records]
    queues = [([i for i, *_ in record["running_after"]], record["waiting_after"]) for record in records]
    return shares[0] != shares[1], queues[0] != queues[1], first.holders() != second.holders()


def with_bar(part: Part, marked: bool) -> Part:
    bar = svg.rect(2, 0, 4, part.height - 8, rx=2, class_="mv-alert mv-differs") if marked else svg.Markup("")
    return replace(part, layers=[*part.layers, Layer(f"{part.layers[0].name}-differs", bar)])
