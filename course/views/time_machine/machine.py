"""The time machine: every step of a run as one picture."""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from course.traces.events import events_in
from course.traces.recording import Recording
from course.traces.run_state import RunInfo, RunState
from course.traces.sentences import describe_step
from course.views.film import Film
from course.views.parts import WIDTHS, headline_part, most_lines, page, span_of
from course.views.picture import WIDTH, Picture
from course.views.step_axis import StepAxis, TimeScale
from course.views.text import counted, facts, ranges, spaced
from course.views.time_machine.budget import budget_part, of_drafts, with_hits
from course.views.time_machine.free_queue import free_queue_part
from course.views.time_machine.history import Histories
from course.views.time_machine.memory import memory_part
from course.views.time_machine.queues import queues_part
from course.views.time_machine.shelf import MAX_LINES, Shelf
from course.views.time_machine.tables import num_rows, tables_part
from course.views.time_machine.timeline import MAX_HEIGHT, Timeline

LOW = 112


def time_machine(recording: Recording, *, brief: bool = False) -> Film:
    """Return a picture of each step: budget, queues, block pool, free queue, and the timeline of the whole run.

    A `brief` one has room below the knobs of a panel: block tables and free queue are in its text alone.
    """
    recording = recording.with_stuck_step()
    drawn = {width: pictures(recording, range(len(recording.steps)), width, brief=brief) for width in WIDTHS}
    follow = choices(recording.info, Shelf.fitting([recording], span_of(WIDTH)))
    return Film(drawn.pop(WIDTH), list(drawn.values()), follow, events_in(recording), has_time=True)


def pictures(
    recording: Recording, steps: Container[int], width: float = WIDTH, *, brief: bool = False
) -> list[Picture]:
    """Return the pictures of some steps, for those who need no whole film."""
    recording, room = recording.with_stuck_step(), span_of(width)
    histories, num_steps = histories_of(recording), len(recording.steps)
    timeline = Timeline(
        recording.info,
        histories,
        axes_of([histories.num_tokens], num_steps, room)[0],
        most_high=LOW if brief else MAX_HEIGHT,
    )
    shelf = Shelf.fitting([recording], room, most_lines=1 if brief else MAX_LINES)
    num_lines = most_lines(map(describe_step, states(recording)), width)
    frame = Frame(width, timeline, shelf, with_hits([recording]), 0 if brief else num_rows(recording), num_steps, brief)
    shown = (state for step, state in enumerate(states(recording)) if step in steps)
    return [frame.picture(state, num_lines) for state in shown]


def axes_of(runs: Sequence[Sequence[int]], num_steps: int, room: float) -> list[dict[str, StepAxis]]:
    """Return the axes of each run, in steps and in time, on one scale; a run is the tokens of its steps."""
    scale, even = TimeScale.fitting(runs, room), StepAxis.even(num_steps, room)
    return [{"steps": even, "time": StepAxis.in_time(run, scale, num_steps)} for run in runs]


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


def choices(info: RunInfo, shelf: Shelf) -> list[tuple[str, str]]:
    """Return what can be followed: the requests, then the blocks."""
    requests = [(f"request:{info.index(i)}", f"request {info.label(i)}") for i in info.titles]
    blocks = shelf.blocks(info.block_size, info.num_blocks)
    return requests + [(f"block:{block}", f"{info.unit} {block}") for block in blocks]


@dataclass(frozen=True)
class Frame:
    """What all pictures of a film share: the timeline, the places of the memory, and which parts there are."""

    width: float
    timeline: Timeline
    shelf: Shelf
    hits: bool
    table_rows: int
    num_steps: int
    brief: bool

    def picture(self, state: RunState, num_lines: int) -> Picture:
        """Return the picture of the state's current step, with room for a sentence of `num_lines` lines."""
        assert state.record is not None
        title, width = headline(state, self.num_steps), self.width
        parts = [headline_part(title, figures(state), width), budget_part(state, width, hits=self.hits)]
        parts += [queues_part(state, width), memory_part(state, self.shelf)]
        if self.table_rows:
            parts.append(tables_part(state, width, self.table_rows))
        if state.info.block_size > 1 and not self.brief:
            parts.append(free_queue_part(state, width))
        parts.append(self.timeline.part(state, state.record["step"]))
        text = text_alternative(state, self.timeline.histories, self.num_steps) if width == WIDTH else ""
        return page(f"Time machine, {title}", parts, describe_step(state), text, width, num_lines)


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


def figures(state: RunState) -> str:
    """Return the counts in fewer words."""
    return counts(state).replace("tokens from", "from")


def text_alternative(state: RunState, histories: Histories, num_steps: int) -> str:
    """Return every fact of the picture as lines of text."""
    assert state.record is not None
    record, info, holders = state.record, state.info, state.holders()

    def labels(request_ids: Iterable[str]) -> str:
        return spaced(map(info.label, request_ids))

    shares = [
        f"{info.label(share['id'])} {share['n']} {'decode' if state.is_decode(share) else 'prefill'}{of_drafts(share)}"
        for share in record["scheduled"]
    ]
    unit, used = info.unit, state.num_used_slots()
    undone = [f"{info.label(i)} {num_tokens}" for i, _, num_tokens in record["preempted"] if num_tokens]
    hits = [f"{info.label(share['id'])} {share['hit']}" for share in record["scheduled"] if share.get("hit")]
    reserved = {
        i: len(table) * info.block_size - sum(used[block] for block in table) for i, table in state.tables.items()
    }
    ranked = sorted(info.priorities.items(), key=lambda item: item[1])
    priorities = ", ".join(f"{info.label(i)} {priority}" for i, priority in ranked)
    rare = [("plan undone", ", ".join(undone)), ("in the prefix cache, not computed", ", ".join(hits))]
    rare.append(("priorities, most urgent first", priorities))
    shared = [f"{block} ({labels(holders[block])})" for block in sorted(holders) if len(holders[block]) > 1]
    return facts(
        [
            (headline(state, num_steps), counts(state)),
            ("what happened", describe_step(state)),
            ("token budget", f"{record['total']} of {info.token_budget}: {', '.join(shares) or 'none'}"),
            *[fact for fact in rare if fact[1]],
            ("running", labels(request_id for request_id, *_ in record["running_after"])),
            ("waiting", labels(record["waiting_after"])),
            ("memory", f"{counted(info.num_blocks, unit)}{f' of {info.block_size} slots' * (info.block_size > 1)}"),
            *[(f"{unit}s of {info.label(i)}", ranges(state.tables[i])) for i in info.titles if state.tables.get(i)],
            ("slots reserved, not used", ", ".join(f"{info.label(i)} {n}" for i, n in reserved.items() if n)),
            (f"shared {unit}s", ", ".join(shared)),
            ("just taken", ranges(state.pool.taken)),
            ("old content lost", ranges(record["evicted"])),
            ("free, content kept", ranges(sorted(state.cached() - holders.keys()))),
            ("given back", "; ".join(f"{info.label(i)} {ranges(blocks)}" for i, blocks in state.pool.freed if blocks)),
            ("free queue, next first", ranges(state.pool.free_queue)),
            ("tokens computed before the first token", histories.waits(info, record["step"], first=True)),
            (
                "tokens computed in the longest wait for a next token",
                histories.waits(info, record["step"], first=False),
            ),
            *[(info.label(i), histories.of[i].text(state, i)) for i in histories.arrived(record["step"])],
        ]
    )
