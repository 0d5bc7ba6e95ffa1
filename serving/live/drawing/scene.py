"""One picture of a server's engine: the parts of the time machine, in the room that the page has."""

from collections.abc import Mapping
from copy import copy
from typing import Any

from course.traces.run_state import RunState
from course.traces.sentences import describe_step
from course.views.parts import Part, span_of, stacked
from course.views.picture import Picture
from course.views.step_axis import StepAxis
from course.views.time_machine.budget import budget_part
from course.views.time_machine.free_queue import free_queue_part
from course.views.time_machine.queues import queues_part
from course.views.time_machine.timeline import MAX_ROW_HEIGHT, MIN_ROW_HEIGHT_FOR_TEXT, Timeline
from serving.live.drawing.drafts_part import drafts_part
from serving.live.drawing.facts import text_of
from serving.live.drawing.live_run import LiveRun
from serving.live.drawing.look import Look
from serving.live.drawing.pool_part import pool_part

STEP_WIDTH, AHEAD = 8, 0.3
MIN_MEMORY, MAX_MEMORY, SHARE_OF_MEMORY = 40, 210, 0.45
BELOW_TIMELINE, MIN_ROWS, MAX_ROWS = 34, 3, 24
ROWS = (MAX_ROW_HEIGHT, MIN_ROW_HEIGHT_FOR_TEXT)


def picture_of(run: LiveRun, look: Look, facts: Mapping[str, Any]) -> Picture:
    """Return the step that a page looks at, the newest one if there is no such step any more."""
    newest = run.newest
    step = newest if look.step is None else max(run.oldest, min(newest, look.step))
    state, width = as_seen(run, step), float(look.width)
    parts = [budget_part(state, width, hits=facts["prefix_caching"])]
    if facts["num_drafts"]:
        parts.append(drafts_part(run.verdicts(step), run.info, width))
    parts.append(queues_part(state, width, in_rows=True))
    if run.info.block_size > 1:
        parts.append(free_queue_part(state, width))
    room = look.height - sum(part.height for part in parts) - BELOW_TIMELINE
    memory = pool_part(state, run.info, width, max(MIN_MEMORY, min(MAX_MEMORY, SHARE_OF_MEMORY * room)))
    parts.insert(len(parts) - (run.info.block_size > 1), memory)
    parts.append(timeline_part(run, state, look, room - memory.height))
    whole = stacked(parts)
    text = text_of(run, state, facts) if look.with_text else ""
    title = f"Step {step:,} of the engine"
    return Picture(
        title, whole.height, tuple(whole.layers), describe_step(state), text, look.width, legend=whole.legend
    )


def as_seen(run: LiveRun, step: int) -> RunState:
    """Return the state in a step. Content that is older than the requests of its time has no owner."""
    state, recent = copy(run.state(step)), run.recent(step)
    state.remembered = {block: name for block, name in state.remembered.items() if name in recent}
    return state


def timeline_part(run: LiveRun, state: RunState, look: Look, height: float) -> Part:
    """Return the steps around the one that is shown; of a crowd, the followed request and those that run."""
    assert state.record is not None
    step, room = state.record["step"], span_of(look.width)
    num_steps = int(room // STEP_WIDTH)
    end = min(run.newest, step + (int(num_steps * AHEAD) if look.step is not None else 0))
    first = max(0, run.oldest, end - num_steps + 1)
    axis = StepAxis([STEP_WIDTH * place for place in range(num_steps + 1)], is_even=True, first=first)
    # Two heights of rows, so that the places of the layers seldom change.
    few, many = (max(MIN_ROWS, min(MAX_ROWS, int(height // high))) for high in ROWS)
    shown = rows_of(run, state, look.follow, first, end, many)
    num_rows, row = (few, ROWS[0]) if len(shown) <= few else (many, ROWS[1])
    timeline = Timeline(
        run.info, run.histories, {"steps": axis}, most_high=row * num_rows, shown=shown, num_rows=num_rows
    )
    return timeline.part(state, step)


def rows_of(run: LiveRun, state: RunState, follow: str, first: int, last: int, num_rows: int) -> list[str]:
    """Return who has a row: the followed request, then in order of arrival who is in this step or was there lately."""
    assert state.record is not None
    record = state.record
    followed = [follow] if follow in run.info.titles else []
    there = run.histories.between(first, last)
    running = [*(share["id"] for share in record["scheduled"]), *(name for name, *_ in record["running_after"])]
    wanted = dict.fromkeys([*followed, *running, *record["waiting_after"], *reversed(there)])
    chosen = set(list(wanted)[:num_rows]) - set(followed)
    return [*followed, *(name for name in run.info.titles if name in chosen)]
