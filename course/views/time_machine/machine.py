"""The time machine: every step of a run as one picture."""

from collections.abc import Iterator

from course.traces.recording import Recording
from course.traces.run_state import RunInfo, RunState
from course.traces.sentences import describe_step
from course.views import svg
from course.views.film import Film
from course.views.picture import WIDTH, Layer, Picture
from course.views.time_machine.budget import budget_part
from course.views.time_machine.free_queue import free_queue_part
from course.views.time_machine.history import Histories
from course.views.time_machine.parts import RIGHT, Part, stacked
from course.views.time_machine.pool import grid_for, pool_part
from course.views.time_machine.queues import queues_part
from course.views.time_machine.timeline import Timeline
from course.views.time_machine.words import counts, headline, twin
from course.views.typeset import wrap

SENTENCE_SIZE = 13
MOST_LINES = 4
LINE = 18


def time_machine(recording: Recording) -> Film:
    """Return a picture of each step: budget, queues, block pool, free queue, and the timeline of the whole run."""
    num_steps, histories = len(recording.steps), histories_of(recording)
    timeline = Timeline(recording.info, histories, num_steps)
    num_lines = max(len(sentence_lines(describe_step(state))) for state in states(recording))
    pictures = [picture_of(state, timeline, num_steps, num_lines) for state in states(recording)]
    return Film(pictures, follow=choices(recording.info))


def states(recording: Recording) -> Iterator[RunState]:
    """Yield the state in each step. It is one object that moves on: draw it before you take the next."""
    state = RunState(recording.info)
    for record in recording.steps:
        state.advance(record)
        yield state


def histories_of(recording: Recording) -> Histories:
    """Return what each request went through in the whole run."""
    histories = Histories(list(recording.info.titles))
    for state in states(recording):
        histories.add(state)
    return histories


def choices(info: RunInfo) -> list[tuple[str, str]]:
    """Return what can be followed: the requests, then the blocks."""
    requests = [(f"request:{info.index(i)}", f"request {info.label(i)}") for i in info.titles]
    per_cell = grid_for(info.num_blocks + 1).per_cell
    blocks = range(per_cell, info.num_blocks + 1, per_cell)
    return requests + [(f"block:{block}", f"block {block}") for block in blocks]


def picture_of(state: RunState, timeline: Timeline, num_steps: int, num_lines: int) -> Picture:
    """Return the picture of the state's current step, with room for `num_lines` lines of words."""
    assert state.record is not None
    step = state.record["step"]
    head = headline_part(headline(state, num_steps), counts(state))
    below = [free_queue_part(state), timeline.part(state, step), sentence_part(describe_step(state), num_lines)]
    whole = stacked([head, budget_part(state), queues_part(state), pool_part(state), *below])
    return Picture(
        title=f"Time machine, {headline(state, num_steps)}",
        height=whole.height,
        layers=tuple(whole.layers),
        sentence=describe_step(state),
        twin=twin(state, timeline.histories, num_steps),
    )


def headline_part(words: str, numbers: str) -> Part:
    """Return the top line."""
    drawn = [svg.text(12, 22, words, class_="mv-title"), svg.text(RIGHT, 22, numbers, class_="mv-end mv-faint")]
    return Part([Layer("headline", svg.joined(drawn))], 38)


def sentence_part(sentence: str, num_lines: int) -> Part:
    """Return what happened, in words."""
    rule = svg.line(12, 2, RIGHT, 2, class_="mv-rule")
    lines = [
        svg.text(12, 22 + LINE * place, line, font_size=SENTENCE_SIZE)
        for place, line in enumerate(sentence_lines(sentence))
    ]
    return Part([Layer("sentence-rule", rule), Layer("sentence", svg.joined(lines))], LINE * num_lines + 16)


def sentence_lines(sentence: str) -> list[str]:
    """Return a sentence as the lines that it takes in a picture."""
    return wrap(sentence, WIDTH - 24, SENTENCE_SIZE, MOST_LINES)
