"""Two runs of one workload step by step, side by side where there is room, with the first difference marked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from course.traces.events import events_in
from course.traces.recording import Recording
from course.traces.run_state import RunState
from course.traces.sentences import describe_step
from course.views import svg
from course.views.film import Film
from course.views.parts import WIDTHS, Part, headline_part, most_lines, page, side_by_side, span_of, stacked
from course.views.picture import WIDTH, Layer, Picture
from course.views.svg import Markup
from course.views.time_machine.budget import budget_part, with_hits
from course.views.time_machine.difference import Difference, first_difference
from course.views.time_machine.machine import (
    Outlook,
    axes_of,
    choices,
    figures,
    headline,
    states,
    text_alternative,
)
from course.views.time_machine.memory import memory_part
from course.views.time_machine.queues import queues_part
from course.views.time_machine.shelf import Shelf
from course.views.time_machine.timeline import MAX_HEIGHT, Timeline

NAMES = ("mine", "reference")
PREFIXES = ("first-", "second-")
MIN_WIDTH_BESIDE, GAP = 1000, 4
"""From this width on the runs stand side by side."""
MAX_HEIGHT_ABOVE = 64
"""Of a timeline where one run stands above the other."""


def compare(first: Recording, second: Recording, names: tuple[str, str] = NAMES) -> Film:
    """Return both runs in each step. A request has the same colour in both; a red bar marks what differs.

    The runs are meant to have the same requests. Raises `ValueError` if the two names are the same.
    """
    if names[0] == names[1]:
        raise ValueError(f"both runs are called {names[0]!r}; give them different names")
    runs = with_common_titles(first.with_stuck_step(), second.with_stuck_step())
    difference = first_difference(runs[0].steps, runs[1].steps)
    drawn = drawings(runs, names, difference)
    follow = max((choices(run.info, shelf_for(runs, WIDTH)) for run in runs), key=len)
    return Film(drawn.pop(WIDTH), list(drawn.values()), follow, events_in(*runs), has_time=True)


def drawings(
    runs: Sequence[Recording], names: tuple[str, str], difference: Difference | None
) -> dict[float, list[Picture]]:
    """Return the pictures of all steps for pages of each width. A run is replayed twice, whatever the widths."""
    num_steps, outlooks = max(len(run.steps) for run in runs), [Outlook.of(run) for run in runs]
    events = [
        [outlook.sentences[min(step, len(outlook.sentences) - 1)] for outlook in outlooks] for step in range(num_steps)
    ]
    pages = [Shared.of(runs, outlooks, names, difference, width) for width in WIDTHS]
    sentences = [sentence(difference, step, names, happened) for step, happened in enumerate(events)]
    num_lines = {page.width: most_lines(sentences, page.width) for page in pages}
    drawn: dict[float, list[Picture]] = {width: [] for width in WIDTHS}
    for step, *pair in zip(range(num_steps), *(states_until(run, num_steps) for run in runs), strict=True):
        for shared in pages:
            drawn[shared.width].append(picture(step, pair, shared, sentences[step], num_lines[shared.width]))
    return drawn


def sentence(difference: Difference | None, step: int, names: tuple[str, str], events: Sequence[str]) -> str:
    """Return how the runs compare up to a step, and what happens in each where this differs."""
    if difference is None or step < difference.step:
        return verdict(difference, step, names)
    told = [f"{name}: {event}" for name, event in zip(names, events, strict=True)]
    return " ".join([verdict(difference, step, names), *told])


def states_until(recording: Recording, num_steps: int) -> Iterator[RunState]:
    """Yield a state for each step; a run that has ended keeps its last state."""
    for state in states(recording):
        yield state
    for _ in range(num_steps - len(recording.steps)):
        yield state


def shelf_for(runs: Sequence[Recording], width: float) -> Shelf:
    """Return the scale of memory for both runs."""
    return Shelf.fitting(runs, span_of(width), most_lines=1)


@dataclass(frozen=True)
class Side:
    """One of the two runs: its name, its last step, and its timeline."""

    name: str
    last: int
    timeline: Timeline

    def headline(self, state: RunState, step: int) -> str:
        """Return the run's name and which of its steps is shown."""
        over = ", ended" if step > self.last else ""
        return f"{self.name}: {headline(state, self.last + 1)}{over}"

    def text_alternative(self, state: RunState) -> str:
        """Return the run's step as text."""
        return f"{self.name}\n{text_alternative(state, self.timeline.histories, self.last + 1)}"


@dataclass(frozen=True)
class Shared:
    """What all pictures of a width share: both sides, the first difference, the scale of memory, a line for hits.

    The picture is `width` wide; a run is as wide, or half as wide and beside the other.
    """

    sides: Sequence[Side]
    difference: Difference | None
    shelf: Shelf
    hits: bool
    width: float
    column: float

    @classmethod
    def of(
        cls,
        runs: Sequence[Recording],
        outlooks: Sequence[Outlook],
        names: tuple[str, str],
        difference: Difference | None,
        width: float,
    ) -> "Shared":
        """Return what the pictures for pages of a width share."""
        num_steps, mark = max(len(run.steps) for run in runs), difference.step if difference else None
        is_wide = width >= MIN_WIDTH_BESIDE
        column = (width - GAP) / 2 if is_wide else width
        axes = axes_of([outlook.histories.num_tokens for outlook in outlooks], num_steps, span_of(column))
        high = MAX_HEIGHT if is_wide else MAX_HEIGHT_ABOVE
        sides = [
            Side(name, len(run.steps) - 1, Timeline(run.info, outlook.histories, places, mark, high))
            for name, run, outlook, places in zip(names, runs, outlooks, axes, strict=True)
        ]
        return cls(sides, difference, shelf_for(runs, column), with_hits(runs), width, column)


def with_common_titles(first: Recording, second: Recording) -> tuple[Recording, Recording]:
    """Return both recordings with the requests of both, so that numbers, labels and colours agree."""
    titles = first.info.titles | {i: t for i, t in second.info.titles.items() if i not in first.info.titles}
    lengths = second.info.num_prompt_tokens | first.info.num_prompt_tokens
    info = [replace(run.info, titles=titles, num_prompt_tokens=lengths) for run in (first, second)]
    return replace(first, info=info[0]), replace(second, info=info[1])


def picture(step: int, pair: Sequence[RunState], shared: Shared, sentence: str, num_lines: int) -> Picture:
    """Return both runs in one step."""
    parts, column, is_wide = list[Part](), shared.column, shared.column < shared.width
    for place, (side, state) in enumerate(zip(shared.sides, pair, strict=True)):
        drawn = [budget_part(state, column, hits=shared.hits), queues_part(state, column)]
        drawn.append(memory_part(state, shared.shelf))
        marked = [with_bar(part, mark) for part, mark in zip(drawn, differing(*pair), strict=True)]
        head = headline_part(side.headline(state, step), figures(state), column)
        timeline = side.timeline.part(state, step, with_axis=is_wide or place == 1)
        parts.append(stacked([head, *marked, timeline], PREFIXES[place]))
    if is_wide:
        parts = [side_by_side(parts, column + GAP)]
    text = text_of(step, pair, shared) if shared.width == WIDTH else ""
    title = f"{' and '.join(side.name for side in shared.sides)}, step {step}"
    return page(title, parts, sentence, text, shared.width, num_lines)


def text_of(step: int, pair: Sequence[RunState], shared: Shared) -> str:
    """Return every fact of both runs in one step as text."""
    names = (shared.sides[0].name, shared.sides[1].name)
    events = [f"{side.name}: {describe_step(state)}" for side, state in zip(shared.sides, pair, strict=True)]
    texts = [side.text_alternative(state) for side, state in zip(shared.sides, pair, strict=True)]
    return "\n\n".join(["\n".join([verdict(shared.difference, step, names), *events]), *texts])


def differing(first: RunState, second: RunState) -> tuple[bool, bool, bool]:
    """Return whether the budgets, the queues and the block tables differ."""
    one, other = first.record, second.record
    assert one is not None
    assert other is not None
    shares = [[(share["id"], share["n"]) for share in record["scheduled"]] for record in (one, other)]
    running = [[request_id for request_id, *_ in record["running_after"]] for record in (one, other)]
    queues = running[0] != running[1] or one["waiting_after"] != other["waiting_after"]
    return shares[0] != shares[1], queues, first.holders() != second.holders()


def with_bar(part: Part, marked: bool) -> Part:
    """Return a part with a red bar at its left edge if it is marked."""
    bar = svg.rect(2, 0, 4, part.height - 8, rx=2, class_="mv-alert mv-differs") if marked else Markup("")
    return replace(part, layers=[*part.layers, Layer(f"{part.layers[0].name}-differs", bar)])


def verdict(difference: Difference | None, step: int, names: tuple[str, str]) -> str:
    """Return how the two runs compare up to a step."""
    both = f"{names[0]} and {names[1]}"
    if difference is None:
        return f"{both} decide the same in every step."
    if step < difference.step:
        return f"{both} decide the same up to here. They diverge in step {difference.step}."
    if step == difference.step:
        return f"{both} diverge here: the first difference is in {difference.describe()}."
    return f"{both} diverged in step {difference.step}, in {difference.describe()}."
