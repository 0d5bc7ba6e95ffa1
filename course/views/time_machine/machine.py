"""The time machine: every step of a run as one picture."""

from collections.abc import Container, Iterable, Iterator

from course.traces.events import events_in
from course.traces.recording import Recording
from course.traces.run_state import RunInfo, RunState
from course.traces.sentences import describe_step
from course.views.film import Film
from course.views.parts import headline_part, most_lines, page
from course.views.picture import Picture
from course.views.text import facts, ranges, spaced
from course.views.time_machine.budget import budget_part
from course.views.time_machine.free_queue import free_queue_part
from course.views.time_machine.history import Histories
from course.views.time_machine.pool import grid_for, pool_part
from course.views.time_machine.queues import queues_part
from course.views.time_machine.timeline import Timeline


def time_machine(recording: Recording) -> Film:
    """Return a picture of each step: budget, queues, block pool, free queue, and the timeline of the whole run."""
    every = range(len(recording.steps))
    return Film(pictures(recording, every), choices(recording.info), events_in(recording))


def pictures(recording: Recording, steps: Container[int]) -> list[Picture]:
    """Return the pictures of some steps, for those who need no whole film."""
    num_steps, histories = len(recording.steps), histories_of(recording)
    timeline = Timeline(recording.info, histories, num_steps)
    num_lines = most_lines(describe_step(state) for state in states(recording))
    shown = (state for step, state in enumerate(states(recording)) if step in steps)
    return [picture_of(state, timeline, num_steps, num_lines) for state in shown]


def states(recording: Recording) -> Iterator[RunState]:
    """Yield the state in each step. It is one object that changes: draw it before you take the next."""
    state = RunState(recording.info)
    for record in recording.steps:
        state.advance(record)
        yield state


def histories_of(recording: Recording) -> Histories:
    """Return the history of each request over the whole run."""
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
    """Return the picture of the state's current step, with room for a sentence of `num_lines` lines."""
    assert state.record is not None
    parts = [
        headline_part(headline(state, num_steps), counts(state)),
        *(budget_part(state), queues_part(state), pool_part(state), free_queue_part(state)),
        timeline.part(state, state.record["step"]),
    ]
    text = text_alternative(state, timeline.histories, num_steps)
    return page(f"Time machine, {headline(state, num_steps)}", parts, describe_step(state), text, num_lines)


def headline(state: RunState, num_steps: int) -> str:
    """Return which step it is."""
    assert state.record is not None
    return f"step {state.record['step']} of {num_steps - 1}"


def counts(state: RunState) -> str:
    """Return how many requests run, wait and are done, and the counters so far."""
    record = state.record
    assert record is not None
    parts = [f"{len(record['running_after'])} running", f"{len(record['waiting_after'])} waiting"]
    parts += [f"{len(state.finished)} done", f"{state.num_hit_tokens} tokens from the cache"]
    return " · ".join([*parts, f"{state.num_preemptions} preemption{'s' * (state.num_preemptions != 1)}"])


def text_alternative(state: RunState, histories: Histories, num_steps: int) -> str:
    """Return every fact of the picture as lines of text."""
    assert state.record is not None
    record, info, holders = state.record, state.info, state.holders()

    def labels(request_ids: Iterable[str]) -> str:
        return spaced(map(info.label, request_ids))

    shares = [
        f"{info.label(share['id'])} {share['n']} {'decode' if state.is_decode(share) else 'prefill'}"
        for share in record["scheduled"]
    ]
    shared = [f"{block} ({labels(holders[block])})" for block in sorted(holders) if len(holders[block]) > 1]
    return facts(
        [
            (headline(state, num_steps), counts(state)),
            ("what happened", describe_step(state)),
            ("token budget", f"{record['total']} of {info.token_budget}: {', '.join(shares) or 'none'}"),
            ("running", labels(request_id for request_id, *_ in record["running_after"])),
            ("waiting", labels(record["waiting_after"])),
            *[(f"blocks of {info.label(i)}", ranges(state.tables[i])) for i in info.titles if state.tables.get(i)],
            ("shared blocks", ", ".join(shared)),
            ("just taken", ranges(state.pool.taken)),
            ("old content lost", ranges(record["evicted"])),
            ("free, content kept", ranges(sorted(state.cached() - holders.keys()))),
            ("given back", "; ".join(f"{info.label(i)} {ranges(blocks)}" for i, blocks in state.pool.freed if blocks)),
            ("free queue, next first", ranges(state.pool.free_queue)),
            *[(info.label(i), histories.of[i].text(state, i)) for i in histories.arrived(record["step"])],
        ]
    )
