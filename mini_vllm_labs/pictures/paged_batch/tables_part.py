"""Draws the block tables as the requests hold them and as the step passes them to attention."""

from collections.abc import Sequence
from dataclasses import dataclass

from mini_vllm.core.cdiv import cdiv
from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.paged_batch.flat_step import at
from mini_vllm_labs.pictures.paged_batch.scene import BatchScene, Query
from mini_vllm_labs.pictures.parts import LEFT, Part, heading, span_of
from mini_vllm_labs.pictures.picture import Layer
from mini_vllm_labs.pictures.tiles import on_stripes, striped, tile
from mini_vllm_labs.pictures.time_machine.free_queue import both_ends
from mini_vllm_labs.runs.palette import color

WIDE, HIGH, ROW = 28, 18, 22
LENGTHS, GAP, TOP = 44, 18, 18


@dataclass(frozen=True)
class TableColumns:
    """The positions of the tables: the second table begins at `second`, and the column for lengths ends at `room`."""

    room: float
    second: float

    @classmethod
    def within(cls, width: float) -> "TableColumns":
        room = span_of(width)
        return cls(room, (room - LENGTHS) / 2 + GAP / 2)

    @property
    def cells(self) -> int:
        return int((self.second - GAP) // WIDE)

    def shown(self, num_entries: int) -> list[int | None]:
        """Return the entries to draw as cells; None marks the omitted middle of a long table."""
        return both_ends(range(num_entries), self.cells) if num_entries else []


def tables_part(scene: BatchScene, query: Query, columns: TableColumns, lines: svg.Markup) -> Part:
    """Draw one line per request (`all_lines`); the entry for the query's own position is outlined."""
    names = [
        svg.text(0, 10, "block_ids", class_="mv-faint"),
        svg.text(columns.second, 10, "cut and padded", class_="mv-faint"),
        svg.text(columns.room, 10, "seq_lens", class_="mv-faint mv-end"),
    ]
    layers = [
        heading("tables", "4 tables", 12),
        Layer("tables-names", svg.joined(names), LEFT),
        Layer("tables-lines", lines, 0, TOP),
        Layer("tables-cursor", cursor(scene, query, columns), LEFT, TOP),
    ]
    return Part(layers, TOP + ROW * len(scene.batch) + 10)


def all_lines(scene: BatchScene, columns: TableColumns) -> svg.Markup:
    parts = []
    for number, row in enumerate(scene.batch):
        y, used = number * ROW, cdiv(scene.seq_lens[number], scene.block_size)
        name = scene.name(number)
        parts.append(svg.group(tile(number, name, 72, y, 30, HIGH), data_request=str(number), class_="mv-link"))
        held = [
            hidden(cell, len(row.block_ids) - columns.cells)
            if place is None
            else block_cell(scene, number, row.block_ids[place], cell, cut=place >= used)
            for cell, place in enumerate(columns.shown(len(row.block_ids)))
        ]
        got = scene.step.block_tables[number] if number < len(scene.step.block_tables) else []
        parts.append(svg.group(*held, transform=svg.at(LEFT, y)))
        given = given_cells(scene, number, got, columns)
        parts.append(svg.group(*given, transform=f"translate({LEFT + columns.second},{y})"))
        parts.append(svg.text(LEFT + columns.room, y + 13, str(scene.seq_lens[number]), class_="mv-end"))
    return svg.joined(parts)


def given_cells(scene: BatchScene, number: int, got: Sequence[int], columns: TableColumns) -> list[svg.Markup]:
    """Draw a table as the step passes it, with wrong entries framed in red."""
    expected = scene.rules.block_tables[number]
    num_entries, cells = max(len(got), len(expected)), []
    for cell, place in enumerate(columns.shown(num_entries)):
        if place is None:
            cells.append(hidden(cell, num_entries - columns.cells))
            continue
        block = at(got, place)
        if block is None:
            cells.append(svg.text(cell * WIDE + WIDE / 2 - 1.5, 13, "?", class_="mv-middle mv-strong mv-alert"))
        else:
            cells.append(block_cell(scene, number, block, cell))
        if block != at(expected, place):
            about = svg.tooltip(f"the rules give {at(expected, place)}")
            frame = svg.rect(cell * WIDE, 0, WIDE - 3, HIGH, rx=3, class_="mv-alert-line mv-wrong", stroke_width=3)
            cells.append(svg.group(about, frame))
    return cells


def block_cell(scene: BatchScene, number: int, block: int, cell: int, *, cut: bool = False) -> svg.Markup:
    """Draw one entry in the request's colour: pale and dashed if this step does not need it, grey if padding."""
    x, width = cell * WIDE, WIDE - 3
    if block == 0:
        drawn = [
            svg.tooltip("0: the null block pads the table and is never read"),
            svg.rect(x, 0, width, HIGH, rx=3, class_="mv-panel"),
            svg.text(x + width / 2, 13, "0", class_="mv-middle mv-faint"),
        ]
    elif cut:
        style = f"stroke:{color(number)};stroke-width:2"
        drawn = [
            svg.tooltip(f"block {block}: still empty after this step, so it is cut off"),
            svg.rect(x + 1, 1, width - 2, HIGH - 2, rx=3, class_="mv-paper", style=style, stroke_dasharray="3 2"),
            svg.text(x + width / 2, 13, str(block), class_="mv-middle mv-faint"),
        ]
    else:
        owners = [k for k, row in enumerate(scene.batch) if block in row.block_ids] or [number]
        drawn = [
            svg.tooltip(f"block {block}: {', '.join(map(scene.name, owners))}"),
            striped(owners, x, 0, width, HIGH),
            on_stripes(owners, x + width / 2, 13, str(block)),
        ]
    return svg.group(*drawn, data_block=str(block), class_="mv-link")


def hidden(cell: int, num_more: int) -> svg.Markup:
    words = f"+{num_more + 1}" if num_more < 99 else "…"
    shown = svg.text(cell * WIDE + WIDE / 2 - 1.5, 13, words, class_="mv-middle mv-faint")
    return svg.group(svg.tooltip(f"{num_more + 1} more"), shown)


def cursor(scene: BatchScene, query: Query, columns: TableColumns) -> svg.Markup:
    """Draw outlines around the entry for the query's own position in both tables."""
    place, parts = query.position // scene.block_size, []
    sizes = (len(scene.batch[query.number].block_ids), len(scene.rules.block_tables[query.number]))
    for x, num_entries in zip((0, columns.second), sizes, strict=True):
        places = columns.shown(num_entries)
        cell = places.index(place) if place in places else places.index(None)
        left, top = x + cell * WIDE - 1, query.number * ROW - 1
        parts.append(svg.rect(left, top, WIDE - 1, HIGH + 2, rx=4, class_="mv-changed"))
    return svg.joined(parts)
