"""Two runs of one workload, one below the other, step by step, with the first difference marked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from course.traces.events import events_in
from course.traces.recording import Recording
from course.traces.run_state import RunState
from course.traces.sentences import describe_step
from course.views import svg
from course.views.film import Film
from course.views.parts import Part, headline_part, most_lines, page, stacked
from course.views.picture import Layer, Picture
from course.views.svg import Markup
from course.views.time_machine.budget import budget_part, with_hits
from course.views.time_machine.difference import Difference, first_difference
from course.views.time_machine.machine import (
    axes_of,
    choices,
    counts,
    headline,
    histories_of,
    states,
    text_alternative,
)
from course.views.time_machine.memory import memory_part
from course.views.time_machine.queues import queues_part
from course.views.time_machine.shelf import Shelf
from course.views.time_machine.timeline import Timeline

NAMES = ("mine", "reference")
PREFIXES = ("first-", "second-")


def compare(first: Recording, second: Recording, names: tuple[str, str] = NAMES) -> Film:
    """Return both runs in each step. A request has the same colour in both; a red bar marks what differs.

    The runs are meant to have the same requests. Raises `ValueError` if the two names are the same.
    """
    if names[0] == names[1]:
        raise ValueError(f"both runs are called {names[0]!r}; give them different names")
    runs = with_common_titles(first.with_stuck_step(), second.with_stuck_step())
    num_steps = max(len(run.steps) for run in runs)
    difference = first_difference(runs[0].steps, runs[1].steps)
    mark = difference.step if difference else None
    histories = [histories_of(run) for run in runs]
    axes = axes_of([history.num_tokens for history in histories], num_steps)
    parts = zip(runs, histories, axes, strict=True)
    lines = [Timeline(run.info, history, places, mark) for run, history, places in parts]
    shared = Shared(names, difference, Shelf.fitting(runs, most_lines=1), with_hits(runs))
    sides = [Side(name, run, line) for name, run, line in zip(names, runs, lines, strict=True)]
    pairs = zip(range(num_steps), *(side.states(num_steps) for side in sides), strict=True)
    num_lines = most_lines(shared.sentence(step, pair) for step, *pair in pairs)
    pairs = zip(range(num_steps), *(side.states(num_steps) for side in sides), strict=True)
    pictures = [picture(step, sides, pair, shared, num_lines) for step, *pair in pairs]
    follow = max((choices(run.info, shared.shelf) for run in runs), key=len)
    return Film(pictures, follow, events_in(*runs), has_time=True)


@dataclass(frozen=True)
class Shared:
    """What both runs share in all pictures: names, the first difference, the scale of memory, a line for hits."""

    names: tuple[str, str]
    difference: Difference | None
    shelf: Shelf
    hits: bool

    def sentence(self, step: int, pair: Sequence[RunState]) -> str:
        """Return how the runs compare up to a step, and what happens in each where this differs."""
        events = [describe_step(state) for state in pair]
        if self.difference is None or step < self.difference.step:
            return verdict(self.difference, step, self.names)
        told = [f"{name}: {event}" for name, event in zip(self.names, events, strict=True)]
        return " ".join([verdict(self.difference, step, self.names), *told])


def with_common_titles(first: Recording, second: Recording) -> tuple[Recording, Recording]:
    """Return both recordings with the requests of both, so that numbers, labels and colours agree."""
    titles = first.info.titles | {i: t for i, t in second.info.titles.items() if i not in first.info.titles}
    lengths = second.info.num_prompt_tokens | first.info.num_prompt_tokens
    info = [replace(run.info, titles=titles, num_prompt_tokens=lengths) for run in (first, second)]
    return replace(first, info=info[0]), replace(second, info=info[1])


class Side:
    """One of the two runs."""

    def __init__(self, name: str, recording: Recording, timeline: Timeline) -> None:
        self.name, self.recording, self.timeline = name, recording, timeline
        self.last = len(recording.steps) - 1

    def states(self, num_steps: int) -> Iterator[RunState]:
        """Yield a state for each step; a run that has ended keeps its last state."""
        for state in states(self.recording):
            yield state
        for _ in range(num_steps - len(self.recording.steps)):
            yield state

    def headline(self, state: RunState, step: int) -> str:
        """Return the run's name and which of its steps is shown."""
        over = f", ended in step {self.last}" if step > self.last else ""
        return f"{self.name}: {headline(state, self.last + 1)}{over}"

    def text_alternative(self, state: RunState) -> str:
        """Return the run's step as text."""
        return f"{self.name}\n{text_alternative(state, self.timeline.histories, self.last + 1)}"


def picture(step: int, sides: Sequence[Side], pair: Sequence[RunState], shared: Shared, num_lines: int) -> Picture:
    """Return both runs in one step."""
    parts = []
    for place, (side, state) in enumerate(zip(sides, pair, strict=True)):
        last = place == 1
        drawn = [budget_part(state, hits=shared.hits, with_legend=last), queues_part(state)]
        drawn.append(memory_part(state, shared.shelf, with_legend=last))
        marked = [with_bar(part, mark) for part, mark in zip(drawn, differing(*pair), strict=True)]
        head = headline_part(side.headline(state, step), counts(state))
        timeline = side.timeline.part(state, step, with_legend=last)
        parts.append(stacked([head, *marked, timeline], prefix=PREFIXES[place]))
    events = [f"{side.name}: {describe_step(state)}" for side, state in zip(sides, pair, strict=True)]
    texts = [side.text_alternative(state) for side, state in zip(sides, pair, strict=True)]
    text = "\n\n".join(["\n".join([verdict(shared.difference, step, shared.names), *events]), *texts])
    title = f"{shared.names[0]} and {shared.names[1]}, step {step}"
    return page(title, parts, shared.sentence(step, pair), text, num_lines)


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
    bar = svg.rect(2, 0, 4, part.height - 12, rx=2, class_="mv-alert mv-differs") if marked else Markup("")
    return Part([*part.layers, Layer(f"{part.layers[0].name}-differs", bar)], part.height)


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
