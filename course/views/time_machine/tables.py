"""The block tables while a step is computed: a row per request, its blocks in the order of its tokens."""

from collections.abc import Sequence

from course.traces.recording import Recording
from course.traces.run_state import RunState
from course.views import svg
from course.views.parts import LEFT, Part, heading, span_of
from course.views.picture import Layer
from course.views.svg import Markup
from course.views.tiles import on_stripes, striped, tile
from course.views.time_machine.free_queue import both_ends

MAX_ROWS = 4
ROW = 20
HIGH = 17
NAME = 34
WIDE = 26


def num_rows(run: Recording) -> int:
    """Return the tables that requests hold in one step at most; 0 if these are too many, or no tables of blocks."""
    most = max((len(record["scheduled"]) for record in run.steps), default=0)
    return most if run.info.block_size > 1 and most <= MAX_ROWS else 0


def tables_part(state: RunState, width: float, rows: int) -> Part:
    """Return a row for each request that holds blocks; a shared block has the colours of all its holders."""
    most = int((span_of(width) - NAME) // WIDE)
    holders, tables = state.holders(), [(i, state.tables[i]) for i in state.info.titles if state.tables.get(i)]
    layers = [heading("tables", "block tables", 13, "during the step" if rows > 1 else "")]
    for place in range(rows):
        drawn = row(state, *tables[place], holders, most) if place < len(tables) else Markup("")
        layers.append(Layer(f"table-{place}", drawn, LEFT, place * ROW))
    return Part(layers, max(rows * ROW, 32) + 6)


def row(state: RunState, request_id: str, table: Sequence[int], holders: dict[int, list[str]], most: int) -> Markup:
    """Return a request's tile and its blocks; of a long table the middle is left out."""
    info, index = state.info, state.info.index(request_id)
    head = svg.group(tile(index, info.label(request_id), 0, 0, 28, HIGH), data_request=str(index), class_="mv-link")
    cells = [head]
    for place, block in enumerate(both_ends(table, most)):
        x = NAME + place * WIDE
        if block is None:
            hidden = f"+{len(table) - most + 1}"
            cells.append(svg.text(x + WIDE / 2, 13, hidden, class_="mv-middle mv-faint"))
            continue
        owners = [info.index(i) for i in holders[block]]
        cells.append(
            svg.group(
                svg.tooltip(f"block {block}: {', '.join(map(info.label, holders[block]))}"),
                striped(owners, x, 0, WIDE - 3, HIGH),
                on_stripes(owners, x + (WIDE - 3) / 2, 13, str(block)),
                data_id=f"block:{block}",
                data_block=str(block),
                data_request=" ".join(map(str, owners)),
                class_="mv-link",
            )
        )
    return svg.joined(cells)
