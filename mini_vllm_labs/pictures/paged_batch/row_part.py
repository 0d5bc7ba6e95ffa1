"""Draws the row: all tokens of the step, their positions and slots, and whether they need logits."""

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.paged_batch.flat_step import at
from mini_vllm_labs.pictures.paged_batch.scene import BatchScene
from mini_vllm_labs.pictures.parts import LEFT, Part, span_of
from mini_vllm_labs.pictures.picture import Layer
from mini_vllm_labs.pictures.tiles import tile

MAX_COLUMNS, MIN_WIDTH, MAX_WIDTH = 14, 40, 44
TOP, TILE, LINE_HEIGHT, MARGIN = 44, 20, 20, 12
ARRAYS = ("input_ids", "positions", "slot_mapping")


def page_of(scene: BatchScene, row: int, columns: int = MAX_COLUMNS) -> range:
    """Return the rows that are shown together with `row`."""
    first = row // columns * columns
    return range(first, min(scene.num_rows, first + columns))


def row_part(scene: BatchScene, row: int, step_of: dict[int, int], width: float) -> Part:
    """Draw the part of the row that contains row `row`, with the cursor on it. `step_of` maps rows to steps of the
    film."""
    room = span_of(width) - 2 * MARGIN
    columns = int(room // MIN_WIDTH)
    page, wide = page_of(scene, row, columns), min(float(MAX_WIDTH), room / min(scene.num_rows, columns))
    high = TOP + LINE_HEIGHT * len(ARRAYS)
    names = [
        (14, "1 one row", "mv-strong"),
        (34, "row", "mv-faint"),
        (TOP + 14, "input_ids", ""),
        (TOP + LINE_HEIGHT + 14, "2 positions", ""),
        (TOP + 2 * LINE_HEIGHT + 14, "3 slot_mapping", ""),  # in bold, it would touch the first value
        (high + 14, "logits rows", ""),
        (high + 30, "query_start_loc", ""),
    ]
    drawn = [svg.text(12, y, name, class_=look) for y, name, look in names]
    # moved 3 px to the right, because the names end at the left edge of the first row
    cursor = svg.rect((row - page.start) * wide + 3, 22, wide - 4, high - 6, rx=3, class_="mv-changed")
    layers = [
        Layer("row-names", svg.joined(drawn)),
        Layer("row-page", whole_page(scene, page, wide, step_of, span_of(width)), LEFT),
        Layer("row-cursor", cursor, LEFT),
    ]
    return Part(layers, high + (54 if scene.num_rows > columns else 42))


def whole_page(scene: BatchScene, page: range, wide: float, step_of: dict[int, int], room: float) -> svg.Markup:
    high, parts = TOP + LINE_HEIGHT * len(ARRAYS), []
    for number in dict.fromkeys(scene.owners[row] for row in page):
        rows = [row for row in page if scene.owners[row] == number]
        x, width = (rows[0] - page.start) * wide, len(rows) * wide
        shown = tile(number, scene.name(number), x + 1, 0, width - 2, TILE)
        parts.append(svg.group(shown, data_request=str(number), class_="mv-link"))
    for row in page:
        x = (row - page.start) * wide
        cells = [svg.text(x + wide / 2, 34, str(row), class_="mv-middle mv-faint")]
        for place, name in enumerate(ARRAYS):
            cells.append(entry(scene, name, row, x + wide / 2, TOP + place * LINE_HEIGHT + 14))
        if row in scene.step.logits_rows or row in scene.rules.logits_rows:
            is_there = row in scene.step.logits_rows
            colour = "" if is_there == (row in scene.rules.logits_rows) else "mv-alert mv-wrong"
            number_text = str(row) if is_there else "none"
            cells.append(svg.text(x + wide / 2, high + 14, number_text, class_=f"mv-middle mv-strong {colour}"))
        parts.append(svg.group(*cells, data_row=str(row)))
        if row in step_of:
            ground = svg.rect(x, TILE, wide, high - TILE, fill="transparent", data_go_to=str(step_of[row]))
            parts.append(svg.group(ground, class_="mv-link"))
    parts += starts(scene, page, wide, high)
    if page.start or page.stop < scene.num_rows:
        rows_text = f"rows {page.start} to {page.stop - 1} of {scene.num_rows}"
        parts.append(svg.text(room, high + 46, rows_text, class_="mv-end mv-faint"))
    return svg.joined(parts)


def entry(scene: BatchScene, name: str, row: int, x: float, y: float) -> svg.Markup:
    got, expected = at(getattr(scene.step, name), row), at(getattr(scene.rules, name), row)
    shown = "?" if got is None else str(got)
    if got == expected:
        return svg.text(x, y, shown, class_="mv-middle")
    about = svg.tooltip(f"{name}[{row}] is {shown}, the rules give {expected}")
    return svg.group(about, svg.text(x, y, shown, class_="mv-middle mv-strong mv-alert mv-wrong"))


def starts(scene: BatchScene, page: range, wide: float, high: float) -> list[svg.Markup]:
    """Draw `query_start_loc`: where each request begins, and where the last one ends."""
    parts = []
    for number, expected in enumerate(scene.rules.query_start_loc):
        if expected not in page and not expected == scene.num_rows == page.stop:
            continue
        got, x = at(scene.step.query_start_loc, number), (expected - page.start) * wide
        colour = "" if got == expected else " mv-strong mv-alert mv-wrong"
        parts.append(svg.line(x, TILE if x else high, x, high + 18, class_="mv-rule"))  # names end at the left edge
        anchor = " mv-middle" if x else ""
        parts.append(svg.text(x, high + 30, "?" if got is None else str(got), class_=f"{colour}{anchor}"))
    return parts
