"""The block tables: as the requests hold them, and as the step passes them to attention."""

from collections.abc import Sequence

from course.palette import color
from course.views import svg
from course.views.paged_batch.flat_step import at
from course.views.paged_batch.scene import Query, Scene
from course.views.parts import LEFT, SPAN, Part, heading
from course.views.picture import Layer
from course.views.svg import Markup
from course.views.tiles import on_stripes, striped, tile
from course.views.typeset import text_width
from mini_vllm.core.cdiv import cdiv

CELLS = 9
WIDE = 28
HIGH = 18
ROW = 22
SECOND = 300
TOP = 18


def tables_part(scene: Scene, query: Query) -> Part:
    """Return a line per request; the entry for the query's own position is outlined."""
    names = [
        svg.text(0, 10, "block_ids", class_="mv-small mv-faint"),
        svg.text(SECOND, 10, "cut and padded", class_="mv-small mv-faint"),
        svg.text(SPAN, 10, "seq_lens", class_="mv-small mv-faint mv-end"),
    ]
    layers = [
        heading("tables", "4 tables", 12),
        Layer("tables-names", svg.joined(names), LEFT),
        Layer("tables-lines", all_lines(scene), 0, TOP),
        Layer("tables-cursor", cursor(scene, query), LEFT, TOP),
    ]
    return Part(layers, TOP + ROW * len(scene.batch) + 10)


def shown_places(num_entries: int) -> list[int | None]:
    """Return which entries have a cell; None stands for the middle of a long table."""
    if num_entries <= CELLS:
        return list(range(num_entries))
    return [*range(CELLS // 2), None, *range(num_entries - CELLS // 2, num_entries)]


def all_lines(scene: Scene) -> Markup:
    """Return both tables of every request."""
    parts = []
    for number, row in enumerate(scene.batch):
        y, used = number * ROW, cdiv(scene.seq_lens[number], scene.block_size)
        name = scene.name(number)
        parts.append(svg.group(tile(number, name, 72, y, 30, HIGH), data_request=str(number), class_="mv-link"))
        held: list[Markup] = []
        for cell, place in enumerate(shown_places(len(row.block_ids))):
            if place is None:
                held.append(hidden(cell, len(row.block_ids)))
            else:
                held.append(block_cell(scene, number, row.block_ids[place], cell, cut=place >= used))
        got = scene.step.block_tables[number] if number < len(scene.step.block_tables) else []
        parts.append(svg.group(*held, transform=f"translate({LEFT},{y})"))
        given = given_cells(scene, number, got)
        parts.append(svg.group(*given, transform=f"translate({LEFT + SECOND},{y})"))
        parts.append(svg.text(LEFT + SPAN, y + 13, str(scene.seq_lens[number]), class_="mv-end"))
    return svg.joined(parts)


def given_cells(scene: Scene, number: int, got: Sequence[int]) -> list[Markup]:
    """Return a table as the step passes it, wrong entries framed in red."""
    expected = scene.rules.block_tables[number]
    num_entries, cells = max(len(got), len(expected)), []
    for cell, place in enumerate(shown_places(num_entries)):
        if place is None:
            cells.append(hidden(cell, num_entries))
            continue
        block = at(got, place)
        cells.append(missing(cell) if block is None else block_cell(scene, number, block, cell))
        if block != at(expected, place):
            about = svg.tooltip(f"the rules give {at(expected, place)}")
            frame = svg.rect(cell * WIDE, 0, WIDE - 3, HIGH, rx=3, class_="mv-alert-line mv-wrong", stroke_width=3)
            cells.append(svg.group(about, frame))
    return cells


def block_cell(scene: Scene, number: int, block: int, cell: int, *, cut: bool = False) -> Markup:
    """Return one entry: in the request's colour, pale and dashed if this step does not need it, grey if padding."""
    x, width = cell * WIDE, WIDE - 3
    size = next((s for s in (12, 10.5, 8) if text_width(str(block), s, bold=True) <= width - 1), 6)
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
            svg.text(x + width / 2, 13, str(block), class_="mv-middle mv-faint", font_size=size),
        ]
    else:
        owners = [k for k, row in enumerate(scene.batch) if block in row.block_ids] or [number]
        drawn = [
            svg.tooltip(f"block {block}: {', '.join(map(scene.name, owners))}"),
            striped(owners, x, 0, width, HIGH),
            on_stripes(owners, x + width / 2, 13, str(block), size),
        ]
    return svg.group(*drawn, data_block=str(block), class_="mv-link")


def hidden(cell: int, num_entries: int) -> Markup:
    """Return what stands for entries that are not shown."""
    return svg.text(
        cell * WIDE + WIDE / 2 - 1.5, 13, f"+{num_entries - CELLS + 1}", class_="mv-middle mv-faint", font_size=9
    )


def missing(cell: int) -> Markup:
    """Return the mark of a missing entry."""
    return svg.text(cell * WIDE + WIDE / 2 - 1.5, 13, "?", class_="mv-middle mv-strong mv-alert")


def cursor(scene: Scene, query: Query) -> Markup:
    """Return outlines around the entry for the query's own position, in both tables."""
    place, parts = query.position // scene.block_size, []
    sizes = (len(scene.batch[query.number].block_ids), len(scene.rules.block_tables[query.number]))
    for x, num_entries in zip((0, SECOND), sizes, strict=True):
        places = shown_places(num_entries)
        cell = places.index(place) if place in places else places.index(None)
        parts.append(
            svg.rect(x + cell * WIDE - 1, query.number * ROW - 1, WIDE - 1, HIGH + 2, rx=4, class_="mv-changed")
        )
    return svg.joined(parts)
