"""The free queue at the end of a step: who is next, and what was just given back."""

from course.palette import color
from course.traces.run_state import RunState
from course.views import svg
from course.views.picture import Layer
from course.views.svg import Markup
from course.views.time_machine.parts import LEFT, SPAN, Part, heading
from course.views.typeset import shorten

SLOTS = 20
WIDE = SPAN / SLOTS
HIGH = 20


def free_queue_part(state: RunState) -> Part:
    """Return the queue, next block first. Of a long one the middle is left out. What came back is outlined."""
    queue, given = state.pool.free_queue, {block for _, blocks in state.pool.freed for block in blocks}
    ends: list[int | None] = list(queue) or [None]
    if len(queue) > SLOTS:
        ends = [*queue[: SLOTS // 2], None, *queue[1 - SLOTS // 2 :]]
    layers = [heading("free-queue", "free queue", HIGH / 2 + 4, "after the step")]
    for place in range(SLOTS):
        block = ends[place] if place < len(ends) else -1
        content = slot(state, block, len(queue) - SLOTS + 1, given)
        layers.append(Layer(f"free-{place}", content, x=LEFT + place * WIDE))
    layers.append(Layer("free-words", svg.text(0, HIGH + 14, in_words(state), class_="mv-small mv-faint"), x=LEFT))
    return Part(layers, HIGH + 30)


def slot(state: RunState, block: int | None, num_hidden: int, given: set[int]) -> Markup:
    """Return one place of the queue: a block, the gap (None), or nothing (-1)."""
    middle = (WIDE - 4) / 2
    if block is None:
        words = f"+{num_hidden}" if num_hidden > 0 else "empty"
        return svg.text(middle, HIGH / 2 + 4, words, class_="mv-middle mv-faint")
    if block < 0:
        return Markup("")
    owner = state.remembered.get(block) if block in state.cached() else None
    style = f"stroke:{color(state.info.index(owner))};stroke-width:2" if owner is not None else None
    kept = f", what {state.info.label(owner)} left in it can still be found" if owner is not None else ""
    outline = [svg.rect(-1, -1, WIDE - 2, HIGH + 2, rx=4, class_="mv-changed")] if block in given else []
    return svg.group(
        svg.tooltip(f"block {block}: free{kept}{', given back in this step' if outline else ''}"),
        svg.rect(1, 1, WIDE - 6, HIGH - 2, rx=3, class_="mv-panel", style=style, stroke_dasharray="3 2"),
        *outline,
        svg.text(middle, HIGH / 2 + 4, str(block), class_="mv-middle"),
        data_block=str(block),
        data_request=str(state.info.index(owner)) if owner is not None else None,
        class_="mv-link",
    )


def in_words(state: RunState) -> str:
    """Return what the outlines mean."""
    told = [f"{state.info.label(i)} gave back {' '.join(map(str, blocks))}" for i, blocks in state.pool.freed if blocks]
    if not told:
        return "next to be handed out on the left; what is given back comes in on the right"
    return shorten(f"{'; '.join(told)}: last block of a table first", SPAN, 10.5)
