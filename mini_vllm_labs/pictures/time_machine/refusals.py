"""Draws why requests are waiting in a step, which limits apply, and who holds the missing resources."""

from collections.abc import Sequence
from dataclasses import dataclass

from mini_vllm.core.step_record import StepRecord
from mini_vllm.engine.reasons import REASONS, Found, sentence_of
from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.parts import LEFT, MARGIN, NARROW, Part, heading, span_of
from mini_vllm_labs.pictures.picture import Layer
from mini_vllm_labs.pictures.reason_mark import HIGH, SAMPLES, marked, width_of
from mini_vllm_labs.pictures.text import counted
from mini_vllm_labs.pictures.time_machine.queues import Marks, record_of
from mini_vllm_labs.pictures.typeset import wrap
from mini_vllm_labs.runs.traces.run_state import RunInfo, RunState

LINE, MAX_GROUPS, MAX_LINES, TEXT, MARK = 18, 4, 2, 12, 74
BINDS = {
    **dict.fromkeys(("tokens", "prompt"), "tokens"),
    "seats": "seats",
    **dict.fromkeys(("blocks", "guard", "closed", "victim"), "blocks"),
}
"""What is missing if a request waits for the reason with this mark."""
WHERE = {"tokens": "token budget", "seats": "running requests", "blocks": "free blocks"}


@dataclass(frozen=True)
class WaitingGroup:
    """Requests that are waiting for the same reason in a step: their labels, the reason's mark, and its sentence."""

    labels: Sequence[str]
    mark: str
    sentence: str


def reasons_of(record: StepRecord) -> dict[str, Found]:
    """Return a step's reasons keyed by request, running requests first, then queued requests in queue order."""
    found: dict[str, Found] = dict(record.get("reasons", {}))
    order = [*(name for name, *_ in record["running_after"]), *record["waiting_after"]]
    return {name: found[name] for name in dict.fromkeys([*order, *found]) if name in found}


def mark_of(found: Found) -> str:
    return REASONS[found["reason"]].mark


def in_words(info: RunInfo, found: Found) -> str:
    """Return a reason's sentence, with requests named by their labels in the picture."""
    named = {key: info.label(found[key]) for key in ("by", "on") if found.get(key) in info.titles}
    return sentence_of({**found, **named})


def groups_of(info: RunInfo, record: StepRecord) -> list[WaitingGroup]:
    together: dict[tuple[str, str], list[str]] = {}
    for name, found in reasons_of(record).items():
        together.setdefault((mark_of(found), in_words(info, found)), []).append(info.label(name))
    return [WaitingGroup(labels, mark, words) for (mark, words), labels in together.items()]


def missing(record: StepRecord) -> set[str]:
    """Return which of the resources in `WHERE` have run out in a step, so that a limit applies."""
    return {BINDS[mark] for found in reasons_of(record).values() if (mark := mark_of(found)) in BINDS}


def marks_of(state: RunState) -> Marks:
    """Return the marks of the waiting requests, and of the requests that hold the resources they lack."""
    record = record_of(state)
    reasons = reasons_of(record)
    marks = {name: (mark_of(found), mark_of(found)) for name, found in reasons.items()}
    held = {name: len(state.tables.get(name, [])) for name, *_ in record["running_after"] if name not in reasons}
    if "blocks" in missing(record) and held:
        most = max(held, key=lambda name: held[name])
        marks[most] = ("blocks", f"has {counted(held[most], state.info.unit)}")
    for found in reasons.values():
        if found["reason"] == "tokens" and found["on"] not in marks:
            marks[found["on"]] = ("tokens", f"has {counted(found['most'], 'token')}")
    return marks


def lines_of(groups: Sequence[WaitingGroup], width: float) -> list[tuple[str, str]]:
    """Return the lines of text about a step's groups, each with its mark; continuation lines have an empty mark."""
    room, lines = width - MARGIN - MARK - left(width), list[tuple[str, str]]()
    for place, group in enumerate(groups):
        if place == MAX_GROUPS - 1 and len(groups) > MAX_GROUPS:
            others = [one.mark for one in groups[place:]]
            return [*lines, (group.mark, f"and {len(others)} more reasons: {', '.join(dict.fromkeys(others))}")]
        each = ", each" * (len(group.labels) > 1 and group.sentence.startswith("it"))
        words = f"{', '.join(group.labels)}{each}: {group.sentence}"
        wrapped = wrap(words, room, TEXT, MAX_LINES)
        lines += [(group.mark if line == wrapped[0] else "", line) for line in wrapped]
    return lines


def left(width: float) -> float:
    return LEFT if width >= NARROW else MARGIN


def why_part(state: RunState, width: float, num_lines: int) -> Part:
    """Draw a line for each reason of the step: its mark, the requests, and the sentence."""
    drawn = list[svg.Markup]()
    for place, (mark, words) in enumerate(lines_of(groups_of(state.info, record_of(state)), width)):
        if mark:
            drawn.append(marked(mark, mark, 0, place * LINE, MARK - 6))
        drawn.append(svg.text(MARK, place * LINE + 11.5, words))
    title = [heading("why", "why they wait", 12)] if width >= NARROW else []
    return Part([*title, Layer("why", svg.joined(drawn), x=left(width))], num_lines * LINE + 8, {"reasons": SAMPLES})


def with_limit(part: Part, mark: str, state: RunState, width: float, high: float, y: float) -> Part:
    """If the limit applies in this step, frame the part and draw the limit's mark below its heading, at `y`."""
    drawn = svg.Markup("")
    if mark in missing(record_of(state)):
        box = svg.rect(
            LEFT - 3, -3, span_of(width) + 6, high + 6, rx=4, class_="mv-alert-line mv-binds", stroke_width=2
        )
        drawn = svg.joined([box, marked(mark, mark, MARGIN, y, width_of(mark))])
    return Part([*part.layers, Layer(f"{mark}-bind", drawn)], max(part.height, y + HIGH + 3), part.legend)
