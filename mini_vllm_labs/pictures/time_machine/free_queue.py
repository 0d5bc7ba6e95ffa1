"""Draws blocks in rows: the free queue, and the block table of each request."""

from collections.abc import Callable, Sequence

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.parts import LEFT, Part, heading, span_of
from mini_vllm_labs.pictures.picture import Layer
from mini_vllm_labs.pictures.text import spaced
from mini_vllm_labs.pictures.tiles import on_stripes, striped, tile
from mini_vllm_labs.pictures.typeset import shorten
from mini_vllm_labs.runs.palette import color
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.traces.run_state import RunInfo, RunState

WIDE, HIGH, APART = 29, 22, 4
CELL = WIDE - APART
MAX_ROWS, TABLE_ROW, TABLE_HIGH, TABLE_NAME, TABLE_CELL = 4, 20, 17, 34, 26


def free_queue_part(state: RunState, width: float) -> Part:
    """Draw the queue after the step, and outline the blocks that were just given back. The middle of a long queue is
    omitted."""
    info, queue, cached = state.info, state.pool.free_queue, state.cached()
    # The longest number determines how wide a cell is.
    wide = WIDE + max(0, 7 * len(str(info.num_blocks)) - 17)
    givers = {block: giver for giver, blocks in state.pool.freed for block in blocks}

    def draw(block: int) -> svg.Markup:
        owner = state.remembered.get(block) if block in cached else None
        return free_block(info, block, owner, givers.get(block), wide)

    given = [f"{info.label(i)} gave back {spaced(blocks)}" for i, blocks in state.pool.freed if blocks]
    caption = "left: next to be handed out; right: last given back"
    if given:
        caption = f"{'; '.join(given)}: last {info.unit} of a table first"
    below = svg.text(0, HIGH + 14, shorten(caption, span_of(width), 12), class_="mv-faint")
    layers = [
        heading("free-queue", "free queue", HIGH / 2 + 4, "after the step"),
        *queue_row("free", queue, places_in(width, wide), draw, wide=wide),
        Layer("free-caption", below, x=LEFT),
    ]
    return Part(layers, HIGH + 26)


def places_in(width: float, wide: int = WIDE) -> int:
    return int(span_of(width) // wide)


def queue_row(
    name: str, queue: Sequence[int], places: int, draw: Callable[[int], svg.Markup], y: float = 0, wide: int = WIDE
) -> list[Layer]:
    """Return a layer for each position in a row: a block, the number of omitted blocks, or nothing."""
    hidden = svg.text(0, HIGH / 2 + 4, "none", class_="mv-faint")
    if queue:
        number = f"+{len(queue) - places + 1}"
        hidden = svg.text((wide - APART) / 2, HIGH / 2 + 4, number, class_="mv-middle mv-faint")
    cells = [hidden if block is None else draw(block) for block in both_ends(queue, places)]
    cells += [svg.Markup("")] * (places - len(cells))  # all frames of a film have the same layers
    return [Layer(f"{name}-{place}", cell, LEFT + place * wide, y) for place, cell in enumerate(cells)]


def both_ends(queue: Sequence[int], places: int) -> list[int | None]:
    """Return the blocks that fit in the row. None marks the omitted middle of a long queue, or an empty queue."""
    if len(queue) <= places:
        return list(queue) or [None]
    return [*queue[: places // 2], None, *queue[1 + places // 2 - places :]]


def free_block(info: RunInfo, block: int, owner: str | None, giver: str | None, wide: int = WIDE) -> svg.Markup:
    """Draw a free block: dashed in the colour of its content's `owner`, outlined if just given back."""
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


def outline(wide: int = WIDE) -> svg.Markup:
    return svg.rect(-1, -1, wide - APART + 2, HIGH + 2, rx=4, class_="mv-changed")


def num_rows(run: Recording) -> int:
    """Return the maximum number of block tables in a step, or 0 if block tables cannot be drawn."""
    most = max((len(record["scheduled"]) for record in run.steps), default=0)
    return most if run.info.block_size > 1 and most <= MAX_ROWS else 0


def tables_part(state: RunState, width: float, rows: int) -> Part:
    """Draw a row for each request that holds blocks; a shared block has the colours of all its holders."""
    most = int((span_of(width) - TABLE_NAME) // TABLE_CELL)
    tables = [(i, state.tables[i]) for i in state.info.titles if state.tables.get(i)]
    layers = [heading("tables", "block tables", 13, "during the step" if rows > 1 else "")]
    for place in range(rows):
        drawn = table_row(state, *tables[place], most) if place < len(tables) else svg.Markup("")
        layers.append(Layer(f"table-{place}", drawn, LEFT, place * TABLE_ROW))
    return Part(layers, max(rows * TABLE_ROW, 32) + 6)


def table_row(state: RunState, request_id: str, table: Sequence[int], most: int) -> svg.Markup:
    """Draw a request's tile and its blocks; the middle of a long table is omitted."""
    info, index, holders = state.info, state.info.index(request_id), state.holders()
    name = tile(index, info.label(request_id), 0, 0, 28, TABLE_HIGH)
    cells = [svg.group(name, data_request=str(index), class_="mv-link")]
    for place, block in enumerate(both_ends(table, most)):
        x = TABLE_NAME + place * TABLE_CELL
        if block is None:
            hidden = f"+{len(table) - most + 1}"
            cells.append(svg.text(x + TABLE_CELL / 2, 13, hidden, class_="mv-middle mv-faint"))
            continue
        owners = [info.index(i) for i in holders[block]]
        cells.append(
            svg.group(
                svg.tooltip(f"block {block}: {', '.join(map(info.label, holders[block]))}"),
                striped(owners, x, 0, TABLE_CELL - 3, TABLE_HIGH),
                on_stripes(owners, x + (TABLE_CELL - 3) / 2, 13, str(block)),
                data_id=f"block:{block}",
                data_block=str(block),
                data_request=" ".join(map(str, owners)),
                class_="mv-link",
            )
        )
    return svg.joined(cells)
