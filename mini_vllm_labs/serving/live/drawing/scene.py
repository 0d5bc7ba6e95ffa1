"""Draws a server's engine from the time machine's parts, scaled to fit the page, with figures and text."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict
from typing import Any

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.parts import LEFT, Part, heading, span_of, stacked
from mini_vllm_labs.pictures.picture import Layer, Picture
from mini_vllm_labs.pictures.step_axis import StepAxis
from mini_vllm_labs.pictures.svg import Markup
from mini_vllm_labs.pictures.text import counted, facts, ranges, spaced
from mini_vllm_labs.pictures.tiles import tile
from mini_vllm_labs.pictures.time_machine.budget import budget_part
from mini_vllm_labs.pictures.time_machine.free_queue import free_queue_part
from mini_vllm_labs.pictures.time_machine.queues import queues_part
from mini_vllm_labs.pictures.time_machine.timeline import MAX_ROW_HEIGHT, MIN_ROW_HEIGHT_FOR_TEXT, Timeline
from mini_vllm_labs.runs.traces.drafts import STAND_IN, Verdict
from mini_vllm_labs.runs.traces.run_state import RunInfo, RunState
from mini_vllm_labs.runs.traces.sentences import describe_step
from mini_vllm_labs.serving.live.drawing.live_run import LiveRun
from mini_vllm_labs.serving.live.drawing.pool_part import pool_part
from mini_vllm_labs.serving.live.drawing_process import WantedPicture
from mini_vllm_labs.serving.live.waits import told

STEP_WIDTH, AHEAD = 8, 0.3
MIN_MEMORY, MAX_MEMORY, SHARE_OF_MEMORY = 40, 210, 0.45
BELOW_TIMELINE, MIN_ROWS, MAX_ROWS = 46, 3, 24
NEAR = 3  # number of steps after which "Show me a preemption" gives up
MAX_CHARACTERS = 40
ROWS = (MAX_ROW_HEIGHT, MIN_ROW_HEIGHT_FOR_TEXT)
HIGH, MARK, APART, GAP, TILE = 20, 14, 16, 12, 30
RIGHT = svg.path("M3 7.5l3 3l5.5 -7", class_="mv-line", stroke_width=2)
WRONG = svg.path("M3.5 3.5l7 7m0 -7l-7 7", class_="mv-alert-line", stroke_width=2)
LEGEND = {"drafts": [(RIGHT, "accepted"), (WRONG, "rejected")]}


def picture_of(run: LiveRun, look: WantedPicture, constants: Mapping[str, Any]) -> Picture:
    """Draw the step that a page shows, or the nearest stored step."""
    newest = run.newest
    step = newest if look.step is None else max(run.oldest, min(newest, look.step))
    state, width = as_seen(run, step), float(look.width)
    parts = [budget_part(state, width, hits=constants["prefix_caching"])]
    if constants["num_drafts"]:
        parts.append(drafts_part(run.verdicts(step), run.info, width))
    parts.append(queues_part(state, width, in_rows=True, followed=look.follow))
    queue = [free_queue_part(state, width)] if run.info.block_size > 1 else []
    room = look.height - sum(part.height for part in (*parts, *queue)) - BELOW_TIMELINE
    memory = pool_part(state, width, max(MIN_MEMORY, min(MAX_MEMORY, SHARE_OF_MEMORY * room)))
    whole = stacked([*parts, memory, *queue, timeline_part(run, state, look, room - memory.height)])
    text = text_of(run, state, constants) if look.with_text else ""
    title, layers = f"Step {step:,} of the engine", tuple(whole.layers)
    return Picture(title, whole.height, layers, describe_step(state), text, look.width, legend=whole.legend)


def as_seen(run: LiveRun, step: int) -> RunState:
    """Return the state at a given step, omitting content owners that are not among the recent requests."""
    state, recent = copy(run.state(step)), run.recent(step)  # copies, because the run's state must not be changed
    state.remembered = {block: name for block, name in state.remembered.items() if name in recent}
    return state


def drafts_part(verdicts: Sequence[Verdict], info: RunInfo, width: float) -> Part:
    """Draw a mark (accepted or rejected) for each draft of the previous step, for as many requests as fit."""
    drawn, x, room = list[Markup](), 0.0, span_of(width)
    for place, verdict in enumerate(verdicts):
        wide = TILE + 4 + APART * len(verdict.drafts)
        if x + wide > room - (80 if place + 1 < len(verdicts) else 0):
            drawn.append(svg.text(x, HIGH / 2 + 4, f"and {len(verdicts) - place} more", class_="mv-faint"))
            break
        drawn.append(svg.group(marked_drafts(verdict, info), transform=f"translate({svg.number(x)},0)"))
        x += wide + GAP
    if not drawn:
        drawn.append(svg.text(0, HIGH / 2 + 4, "none verified in this step", class_="mv-faint"))
    layers = [heading("drafts", "drafts", HIGH / 2 + 4), Layer("drafts", svg.joined(drawn), LEFT)]
    return Part(layers, HIGH + 8, LEGEND)


def marked_drafts(verdict: Verdict, info: RunInfo) -> Markup:
    """Draw a request's tile and its drafts' marks in order."""
    index, label = info.index(verdict.request_id), info.label(verdict.request_id)
    what = "place for a draft" if STAND_IN in verdict.drafts else "draft"
    marks = [
        svg.group(
            svg.rect(0.5, 0.5, MARK - 1, MARK - 1, rx=3, class_="mv-panel"),
            RIGHT if place < verdict.num_accepted else WRONG,
            transform=f"translate({TILE + 4 + APART * place},3)",
        )
        for place in range(len(verdict.drafts))
    ]
    return svg.group(
        svg.tooltip(f"{label}: {verdict.num_accepted} of {counted(len(verdict.drafts), what)} accepted"),
        tile(index, label, 0, 0, TILE, HIGH),
        *marks,
        data_request=str(index),
        class_="mv-link",
    )


def timeline_part(run: LiveRun, state: RunState, look: WantedPicture, height: float) -> Part:
    """Draw the steps around the one shown; if space is short, rows of requests involved in a preemption come first."""
    assert state.record is not None
    step, room = state.record["step"], span_of(look.width)
    num_steps = int(room // STEP_WIDTH)
    end = min(run.newest, step + (int(num_steps * AHEAD) if look.step is not None else 0))
    first = max(0, run.oldest, end - num_steps + 1)
    axis = StepAxis([STEP_WIDTH * place for place in range(num_steps + 1)], is_even=True, first=first)
    # With only two row heights, layers rarely move, so the page can replace them one by one.
    few, many = (max(MIN_ROWS, min(MAX_ROWS, int(height // high))) for high in ROWS)
    shown = rows_of(run, state, look.follow, first, end, many)
    num_rows, row = (few, ROWS[0]) if len(shown) <= few else (many, ROWS[1])
    timeline = Timeline(
        run.info,
        run.histories,
        {"steps": axis},
        most_high=row * num_rows,
        shown=shown,
        num_rows=num_rows,
        num_hidden=len(set(run.histories.between(first, end)) - set(shown)),
    )
    return timeline.part(state, step)


def rows_of(run: LiveRun, state: RunState, follow: str, first: int, last: int, num_rows: int) -> list[str]:
    """Return the requests that have rows: the followed request, those involved in a nearby preemption, then the others
    by arrival."""
    assert state.record is not None
    record, titles = state.record, run.info.titles
    near = [
        run.records[step] for step in range(record["step"] - NEAR, record["step"] + NEAR + 1) if step in run.records
    ]
    involved = [name for each in [record, *near] for victim, cause, _ in each["preempted"] for name in (victim, cause)]
    leading = [name for name in dict.fromkeys([follow, *involved]) if name in titles][:num_rows]
    there = run.histories.between(first, last)
    running = [*(share["id"] for share in record["scheduled"]), *(name for name, *_ in record["running_after"])]
    wanted = dict.fromkeys([*leading, *running, *record["waiting_after"], *reversed(there)])
    chosen = set(list(wanted)[:num_rows]) - set(leading)
    return [*leading, *(name for name in titles if name in chosen)]


def figures_of(run: LiveRun, state: RunState) -> dict[str, Any]:
    assert state.record is not None
    record, info = state.record, run.info
    return {
        "step": record["step"],
        "running": len(record["running_after"]),
        "waiting": len(record["waiting_after"]),
        "tokens": record["total"],
        "blocks": info.num_blocks - record["free_after_schedule"],
        "waits": waits_told(run, state),
        **asdict(run.totals[record["step"]]),
    }


def waits_told(run: LiveRun, state: RunState) -> dict[str, Any]:
    """Return why the step's requests are waiting, or nothing for a step that no page showed."""
    assert state.record is not None
    return told(state.record["detail"].get("waits", []), run.info.label)


def text_of(run: LiveRun, state: RunState, constants: Mapping[str, Any]) -> str:
    """Return every fact in a picture as lines of text, with long lists truncated."""
    assert state.record is not None
    record, info, totals = state.record, run.info, run.totals[state.record["step"]]

    def labels(request_ids: Iterable[str]) -> str:
        return spaced(map(info.label, request_ids), MAX_CHARACTERS)

    shares = [
        f"{info.label(share['id'])} {share['n']} {'decode' if state.is_decode(share) else 'prefill'}"
        for share in record["scheduled"]
    ]
    hits = [f"{info.label(share['id'])} {share['hit']}" for share in record["scheduled"] if share.get("hit")]
    drafts = [f"{info.label(v.request_id)} {v.num_accepted} of {len(v.drafts)}" for v in run.verdicts(record["step"])]
    held = len(state.holders())
    return facts(
        [
            ("step", f"{record['step']:,}"),
            ("what happened", describe_step(state)),
            ("token budget", f"{record['total']} of {info.token_budget}: {', '.join(shares) or 'none'}"),
            ("in the prefix cache, not computed", ", ".join(hits)),
            *([("drafts accepted", ", ".join(drafts))] if constants["num_drafts"] else []),
            ("running", labels(name for name, *_ in record["running_after"])),
            ("waiting", labels(record["waiting_after"])),
            ("they wait because", waits_told(run, state)["sentence"]),
            ("preempted", labels(victim for victim, *_ in record["preempted"])),
            ("they needed a block", labels(cause for _, cause, _ in record["preempted"])),
            ("finished", labels(name for name, *_ in record["finished"])),
            ("memory", f"{held} of {counted(info.num_blocks, info.unit)} of {info.block_size} slots held"),
            *[(f"{info.unit}s of {info.label(i)}", ranges(table)) for i, table in state.tables.items() if table],
            ("just taken", ranges(state.pool.taken)),
            ("free, content kept", f"{len(state.cached() - state.holders().keys())}"),
            ("free queue, next first", spaced(state.pool.free_queue, MAX_CHARACTERS)),
            ("so far", f"{totals.ended} requests ended, {totals.preemptions} preemptions"),
        ]
    )
