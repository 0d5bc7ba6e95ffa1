"""Builds the time machine, which draws every step of a run as one picture."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from mini_vllm_labs.pictures.film import Film, requests_of
from mini_vllm_labs.pictures.parts import WIDTHS, Part, headline_part, most_lines, page, span_of
from mini_vllm_labs.pictures.picture import WIDTH, Picture
from mini_vllm_labs.pictures.step_axis import StepAxis, TimeScale
from mini_vllm_labs.pictures.text import counted, facts, ranges, spaced
from mini_vllm_labs.pictures.time_machine.budget import budget_part, of_drafts, with_hits
from mini_vllm_labs.pictures.time_machine.free_queue import free_queue_part, num_rows, tables_part
from mini_vllm_labs.pictures.time_machine.history import Histories
from mini_vllm_labs.pictures.time_machine.memory import memory_part
from mini_vllm_labs.pictures.time_machine.queues import queues_part, record_of
from mini_vllm_labs.pictures.time_machine.refusals import (
    WHERE,
    groups_of,
    lines_of,
    marks_of,
    missing,
    why_part,
    with_limit,
)
from mini_vllm_labs.pictures.time_machine.shelf import MAX_LINES, Shelf
from mini_vllm_labs.pictures.time_machine.timeline import MAX_HEIGHT, Timeline
from mini_vllm_labs.pictures.time_machine.wait_rows import WaitRows
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.traces.run_state import RunInfo, RunState
from mini_vllm_labs.runs.traces.sentences import describe_step, events_in

MAX_BRIEF_HEIGHT = 112  # height in px of the timeline in a brief film


def time_machine(recording: Recording, *, brief: bool = False) -> Film:
    """Return a film with one picture per step: budget, queues, block pool, free queue, and the whole run's timeline.

    A `brief` film fits below a panel's knobs: block tables, the free queue and the reasons for waiting are described
    only in its text.
    """
    recording = recording.with_stuck_step()
    drawn = drawings(recording, range(len(recording.steps)), WIDTHS, brief=brief)
    follow = choices(recording.info, Shelf.fitting([recording], span_of(WIDTH)))
    lines = None if recording.lines is None else recording.lines.encode(recording.info.index)
    return Film.of(drawn, follow, events=events_in(recording), has_time=True, lines=lines)


def pictures(
    recording: Recording, steps: Container[int], width: float = WIDTH, *, brief: bool = False
) -> list[Picture]:
    """Draw some steps, for callers that do not need a whole film."""
    return drawings(recording.with_stuck_step(), steps, [width], brief=brief)[width]


def drawings(
    recording: Recording, steps: Container[int], widths: Sequence[float], *, brief: bool
) -> dict[float, list[Picture]]:
    """Draw some steps for pages of every width. The run is replayed only twice, no matter how many widths there are."""
    outlook = Outlook.of(recording)
    frames = [MachineFrame(recording, outlook, width, brief=brief) for width in widths]
    drawn: dict[float, list[Picture]] = {width: [] for width in widths}
    for step, state in enumerate(states(recording)):
        if step in steps:
            for frame in frames:
                drawn[frame.width].append(frame.picture(state, outlook.sentence(step)))
    return drawn


def axes_of(runs: Sequence[Sequence[int]], num_steps: int, room: float) -> list[dict[str, StepAxis]]:
    scale, even = TimeScale.fitting(runs, room), StepAxis.even(num_steps, room)
    return [{"steps": even, "time": StepAxis.in_time(run, scale, num_steps)} for run in runs]


def states(recording: Recording) -> Iterator[RunState]:
    """Yield the state in each step. The state is a single object that changes, so draw it before advancing."""
    state = RunState(recording.info)
    for record in recording.steps:
        state.advance(record)
        yield state


@dataclass(frozen=True)
class Outlook:
    """The data computed before the first picture is drawn: the histories, and the sentence of each step."""

    histories: Histories
    sentences: list[str]

    @classmethod
    def of(cls, recording: Recording) -> "Outlook":
        histories, sentences = Histories(list(recording.info.titles)), list[str]()
        for state in states(recording):
            histories.add(state)
            sentences.append(describe_step(state))
        return cls(histories, sentences)

    def sentence(self, step: int) -> str:
        return self.sentences[min(step, len(self.sentences) - 1)]


def choices(info: RunInfo, shelf: Shelf) -> list[tuple[str, str]]:
    blocks = shelf.blocks(info.block_size, info.num_blocks)
    return requests_of(info) + [(f"block:{block}", f"{info.unit} {block}") for block in blocks]


class MachineFrame:
    """The layout shared by all pictures at one width: the timeline, the memory's cells, and the set of parts."""

    def __init__(self, recording: Recording, outlook: Outlook, width: float, *, brief: bool) -> None:
        self.width, self.brief, self.num_steps = width, brief, len(recording.steps)
        room, high = span_of(width), MAX_BRIEF_HEIGHT if brief else MAX_HEIGHT
        (axes,) = axes_of([outlook.histories.num_tokens], self.num_steps, room)
        self.timeline = Timeline(recording.info, outlook.histories, axes, most_high=high)
        self.shelf = Shelf.fitting([recording], room, most_lines=1 if brief else MAX_LINES)
        self.has_hits = with_hits([recording])
        self.num_table_rows = 0 if brief else num_rows(recording)
        self.num_lines = most_lines(outlook.sentences, width)
        self.has_reasons, self.draws_reasons = has_reasons(recording), has_reasons(recording) and not brief
        self.waits = WaitRows(recording.info, recording.steps, axes if self.draws_reasons else {}, room)
        groups = [groups_of(recording.info, record) for record in recording.steps if self.draws_reasons]
        self.num_reasons = max((len(lines_of(each, width)) for each in groups), default=0)

    def picture(self, state: RunState, sentence: str) -> Picture:
        title, width = headline(state, self.num_steps), self.width
        parts = [headline_part(title, figures(state), width), *self._limits(state), memory_part(state, self.shelf)]
        if self.num_table_rows:
            parts.append(tables_part(state, width, self.num_table_rows))
        if state.info.block_size > 1 and not self.brief:
            parts.append(free_queue_part(state, width))
        if self.draws_reasons:  # the last part is the free queue, or the memory if each block is a single slot
            parts[-1] = with_limit(parts[-1], "blocks", state, width, parts[-1].height - 8, 32)
        parts.append(self.timeline.part(state, record_of(state)["step"]))
        if self.draws_reasons and self.waits.shown:
            parts.append(self.waits.part(record_of(state)["step"]))
        waits = self.waits if self.has_reasons else None
        text = text_alternative(state, self.timeline.histories, self.num_steps, waits) if width == WIDTH else ""
        return page(f"Time machine, {title}", parts, sentence, text, width, self.num_lines)

    def _limits(self, state: RunState) -> list[Part]:
        """Draw the budget and the queues, including why requests are waiting if the reasons were recorded."""
        width, budget = self.width, budget_part(state, self.width, hits=self.has_hits)
        if not self.draws_reasons:
            return [budget, queues_part(state, width)]
        return [
            with_limit(budget, "tokens", state, width, 26, 21),
            with_limit(queues_part(state, width, marks=marks_of(state)), "seats", state, width, 36, 19),
            *([why_part(state, width, self.num_reasons)] if self.num_reasons else []),
        ]


def headline(state: RunState, num_steps: int) -> str:
    return f"step {record_of(state)['step']} of {num_steps - 1}"


def counts(state: RunState) -> str:
    """Return the numbers of running, waiting and finished requests, and the counters so far."""
    record = record_of(state)
    parts = [f"{len(record['running_after'])} running", f"{len(record['waiting_after'])} waiting"]
    parts += [f"{len(state.finished)} done", f"{state.num_hit_tokens} tokens from the cache"]
    return " · ".join([*parts, counted(state.num_preemptions, "preemption")])


def figures(state: RunState) -> str:
    return counts(state).replace("tokens from", "from")


def text_alternative(state: RunState, histories: Histories, num_steps: int, waits: WaitRows | None = None) -> str:
    info, step = state.info, record_of(state)["step"]
    return facts(
        [
            (headline(state, num_steps), counts(state)),
            ("what happened", describe_step(state)),
            *of_tokens(state),
            *([*of_reasons(state), *waits.text()] if waits else []),
            *of_memory(state),
            ("tokens computed before the first token", histories.waits(info, step, first=True)),
            ("tokens computed in the longest wait for a next token", histories.waits(info, step, first=False)),
            *((info.label(i), histories.of[i].text(state, i)) for i in histories.arrived(step)),
        ]
    )


def of_tokens(state: RunState) -> Iterator[tuple[str, str]]:
    info, record = state.info, record_of(state)
    shares = [
        f"{info.label(share['id'])} {share['n']} {'decode' if state.is_decode(share) else 'prefill'}{of_drafts(share)}"
        for share in record["scheduled"]
    ]
    undone = [f"{info.label(i)} {num_tokens}" for i, _, num_tokens in record["preempted"] if num_tokens]
    hits = [f"{info.label(share['id'])} {share['hit']}" for share in record["scheduled"] if share.get("hit")]
    ranked = sorted(info.priorities.items(), key=lambda item: item[1])
    yield "token budget", f"{record['total']} of {info.token_budget}: {', '.join(shares) or 'none'}"
    if undone:
        yield "plan undone", ", ".join(undone)
    if hits:
        yield "in the prefix cache, not computed", ", ".join(hits)
    if ranked:
        yield "priorities, most urgent first", ", ".join(f"{info.label(i)} {priority}" for i, priority in ranked)
    yield "running", spaced(info.label(request_id) for request_id, *_ in record["running_after"])
    yield "waiting", spaced(map(info.label, record["waiting_after"]))


def of_reasons(state: RunState) -> Iterator[tuple[str, str]]:
    record = record_of(state)
    for group in groups_of(state.info, record):
        yield f"{', '.join(group.labels)} waiting ({group.mark})", group.sentence
    yield from ((f"{WHERE[what]} limit this step", what) for what in sorted(missing(record)))
    held = {name: words for name, (mark, words) in marks_of(state).items() if words != mark}
    yield from ((f"{state.info.label(name)} holds most", words.removeprefix("has ")) for name, words in held.items())


def has_reasons(recording: Recording) -> bool:
    return any(record.get("reasons") for record in recording.steps)


def of_memory(state: RunState) -> Iterator[tuple[str, str]]:
    info, holders, used, pool = state.info, state.holders(), state.num_used_slots(), state.pool
    unit, size, tables = info.unit, info.block_size, state.tables
    unused = {i: len(table) * size - sum(used[block] for block in table) for i, table in tables.items()}
    shared = [block for block in sorted(holders) if len(holders[block]) > 1]
    yield "memory", f"{counted(info.num_blocks, unit)}{f' of {size} slots' * (size > 1)}"
    yield from ((f"{unit}s of {info.label(i)}", ranges(tables[i])) for i in info.titles if tables.get(i))
    yield "slots reserved, not used", ", ".join(f"{info.label(i)} {n}" for i, n in unused.items() if n)
    yield f"shared {unit}s", ", ".join(f"{block} ({spaced(map(info.label, holders[block]))})" for block in shared)
    yield "just taken", ranges(pool.taken)
    yield "old content lost", ranges(record_of(state)["evicted"])
    yield "free, content kept", ranges(sorted(state.cached() - holders.keys()))
    yield "given back", "; ".join(f"{info.label(i)} {ranges(blocks)}" for i, blocks in pool.freed if blocks)
    yield "free queue, next first", ranges(pool.free_queue)
