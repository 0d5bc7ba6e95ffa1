"""Draws the two queues at the end of a step, with the next request first."""

from collections.abc import Mapping, Sequence

from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.parts import LEFT, Part, heading, span_of
from mini_vllm_labs.pictures.picture import Layer
from mini_vllm_labs.pictures.reason_mark import HIGH as MARK_HIGH
from mini_vllm_labs.pictures.reason_mark import marked, width_of
from mini_vllm_labs.pictures.tiles import tile
from mini_vllm_labs.pictures.typeset import text_width
from mini_vllm_labs.runs.traces.run_state import RunState
from mini_vllm_labs.runs.traces.sentences import is_stuck

HIGH, ROW, GAP = 20, 26, 6
MORE, NAMED, WAITING = 76, 104, 64
MIN_ROOM_FOR_ONE_ROW = 560
Marks = Mapping[str, tuple[str, str]]
"""The mark below each of these requests: its kind, and its text."""


def queues_part(
    state: RunState, width: float, *, in_rows: bool = False, followed: str = "", marks: Marks | None = None
) -> Part:
    """Draw running and waiting requests, in two rows if requested or necessary; new requests are outlined.

    If the `followed` request does not fit, its id and position are stated. If `marks` are given, space is left for
    them.
    """
    record = record_of(state)
    running = [request_id for request_id, *_ in record["running_after"]]
    joined = {share["id"] for share in record["scheduled"] if share["kind"] != "running"}
    victims = {victim for victim, *_ in record["preempted"]}
    waiting, new, room = record["waiting_after"], victims | set(record["added"]), span_of(width)
    is_high = in_rows or room < MIN_ROOM_FOR_ONE_ROW or bool(state.info.priorities) or marks is not None
    row = ROW if marks is None else ROW + MARK_HIGH
    each = room if is_high else (room - WAITING) / 2
    if is_high:
        x, y, title = float(LEFT), row, heading("waiting", "waiting", row + HIGH / 2 + 4, "after the step")
    else:
        x, y, words = LEFT + each + WAITING, 0, svg.text(0, HIGH / 2 + 4, "waiting", class_="mv-strong")
        title = Layer("waiting-heading", words, x=LEFT + each)
    layers = [
        heading("running", "running", HIGH / 2 + 4, "" if is_high else "after the step"),
        Layer("running", chips(state, running, joined, each, followed, marks), x=LEFT),
        title,
        Layer("waiting", chips(state, waiting, new, each, followed, marks), x=x, y=y),
    ]
    return Part(layers, y + row + 10)


def chips(
    state: RunState, request_ids: Sequence[str], new: set[str], room: float, followed: str, marks: Marks | None = None
) -> svg.Markup:
    """Draw as many requests as fit, as labels on their colours, and then the number of remaining requests.

    Neighbouring requests with the same mark share a single mark.
    """
    if not request_ids:
        return svg.text(0, HIGH / 2 + 4, "none", class_="mv-faint")
    x, start, parts, stuck = 0.0, 0.0, list[svg.Markup](), is_stuck(record_of(state))
    below = [(marks or {}).get(request_id, ("", "")) for request_id in request_ids]
    more = MORE + NAMED * (followed in request_ids)
    for place, request_id in enumerate(request_ids):
        index, label = state.info.index(request_id), state.info.label(request_id)
        priority = state.info.priorities.get(request_id)
        name = label if priority is None else f"{label}, priority {priority}"
        width, (mark, words) = max(28, text_width(name, 12, bold=True) + 10), below[place]
        if x + width > room - (more if place + 1 < len(request_ids) else 0):
            rest, about = f"and {len(request_ids) - place} more", dict[str, str]()
            if followed in request_ids[place:]:
                rest += f"; {state.info.label(followed)} is number {request_ids.index(followed) + 1}"
                about = {"data_request": str(state.info.index(followed))}
            if x > start and (shared := below[place - 1])[0]:
                parts.append(marked(*shared, start, HIGH + 3, max(width_of(shared[1]), x - GAP - start)))
            parts.append(svg.text(x, HIGH / 2 + 4, rest, class_="mv-faint", **about))
            break
        look = "mv-alert-line" if stuck else "mv-changed"
        frame = svg.rect(x - 1, -1, width + 2, HIGH + 2, rx=4, class_=look, stroke_width=2.5)
        parts.append(
            svg.group(
                svg.tooltip(f"{name}: {'stuck' if stuck else state.status(request_id)}"),
                tile(index, name, x, 0, width, HIGH),
                *([frame] if stuck or request_id in new else []),
                data_id=f"request:{index}",
                data_request=str(index),
                class_="mv-link",
            )
        )
        x += width + GAP
        if below[place : place + 2] != [below[place]] * 2:  # the last neighbour that has this mark
            x = max(x, start + width_of(words) + GAP) if mark else x
            parts += [marked(mark, words, start, HIGH + 3, x - GAP - start)] if mark else []
            start = x
    return svg.joined(parts)


def record_of(state: RunState) -> StepRecord:
    assert state.record is not None
    return state.record
