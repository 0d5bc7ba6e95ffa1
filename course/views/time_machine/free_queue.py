"""The free queue: the next block to hand out on the left, the blocks just given back on the right."""

from collections.abc import Sequence

from course.palette import color
from course.traces.run_state import RunInfo, RunState
from course.views import svg
from course.views.parts import LEFT, Part, heading, span_of
from course.views.picture import Layer
from course.views.svg import Markup
from course.views.text import spaced
from course.views.typeset import shorten

WIDE = 29
HIGH = 22
APART = 4
CELL = WIDE - APART


def free_queue_part(state: RunState, width: float) -> Part:
    """Return the queue after the step. Of a long queue the middle is left out; blocks just given back are outlined."""
    info, queue, cached = state.info, state.pool.free_queue, state.cached()
    wide = cell_width(info.num_blocks)
    places = places_in(width, wide)
    givers = {block: giver for giver, blocks in state.pool.freed for block in blocks}
    cells = [
        free_block(info, block, state.remembered.get(block) if block in cached else None, givers.get(block), wide)
        if block is not None
        else gap(queue, places, wide)
        for block in both_ends(queue, places)
    ]
    given = [f"{info.label(i)} gave back {spaced(blocks)}" for i, blocks in state.pool.freed if blocks]
    caption = "left: next to be handed out; right: last given back"
    if given:
        caption = f"{'; '.join(given)}: last {info.unit} of a table first"
    return Part(
        [
            heading("free-queue", "free queue", HIGH / 2 + 4, "after the step"),
            *row("free", cells, places, wide=wide),
            Layer(
                "free-caption", svg.text(0, HIGH + 14, shorten(caption, span_of(width), 12), class_="mv-faint"), x=LEFT
            ),
        ],
        HIGH + 26,
    )


def places_in(width: float, wide: int = WIDE) -> int:
    """Return how many blocks of the queue a picture has room for."""
    return int(span_of(width) // wide)


def cell_width(num_blocks: int) -> int:
    """Return how wide a place is: as wide as the number of all blocks needs."""
    return WIDE + max(0, 7 * len(str(num_blocks)) - 17)


def row(name: str, cells: Sequence[Markup], places: int, y: float = 0, wide: int = WIDE) -> list[Layer]:
    """Return a layer for each place of the queue; places without a block are empty."""
    padded = [*cells, *[Markup("")] * (places - len(cells))]
    return [Layer(f"{name}-{place}", cell, LEFT + place * wide, y) for place, cell in enumerate(padded)]


def both_ends(queue: Sequence[int], places: int) -> list[int | None]:
    """Return the blocks that fit in the row; None stands for the middle of a long queue, or for an empty queue."""
    if len(queue) <= places:
        return list(queue) or [None]
    return [*queue[: places // 2], None, *queue[1 + places // 2 - places :]]


def gap(queue: Sequence[int], places: int, wide: int = WIDE) -> Markup:
    """Return the number of blocks that are not shown, or that there are none."""
    if not queue:
        return svg.text(0, HIGH / 2 + 4, "none", class_="mv-faint")
    return svg.text((wide - APART) / 2, HIGH / 2 + 4, f"+{len(queue) - places + 1}", class_="mv-middle mv-faint")


def free_block(info: RunInfo, block: int, owner: str | None, giver: str | None, wide: int = WIDE) -> Markup:
    """Return a free block: dashed in the colour of the `owner` of its content, outlined if just given back."""
    kept = f", still holds content of {info.label(owner)}" if owner is not None else ""
    new = f", given back by {info.label(giver)} in this step" if giver is not None else ""
    style = f"stroke:{color(info.index(owner))};stroke-width:2" if owner is not None else None
    return svg.group(
        svg.tooltip(f"{info.unit} {block}: free{kept}{new}"),
        svg.rect(1, 1, wide - APART - 2, HIGH - 2, rx=3, class_="mv-panel", style=style, stroke_dasharray="3 2"),
        *([outline(wide)] if giver is not None else []),
        svg.text((wide - APART) / 2, HIGH / 2 + 4, str(block), class_="mv-middle"),
        data_id=f"block:{block}",
        data_block=str(block),
        data_request=str(info.index(owner)) if owner is not None else None,
        data_move="in" if giver is not None else None,
        class_="mv-link",
    )


def outline(wide: int = WIDE) -> Markup:
    """Return the frame of a block that was just given back."""
    return svg.rect(-1, -1, wide - APART + 2, HIGH + 2, rx=4, class_="mv-changed")
