"""Draws a long text's block tables in a model with sliding layers, and the growth of its number of blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mini_vllm.core.block import NULL_BLOCK_ID
from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.chart import curve
from mini_vllm_labs.pictures.parts import LEFT, MARGIN, WIDTHS, Part, heading, headline_part, page, span_of
from mini_vllm_labs.pictures.picture import WIDTH, Layer, Picture
from mini_vllm_labs.pictures.svg import Markup
from mini_vllm_labs.pictures.text import facts, spaced
from mini_vllm_labs.runs.palette import color

MAX_BLOCKS, ROW, BOX, CHART = 64, 34, 20, 150


def windows(
    title: str, tables: Mapping[str, Sequence[int]], held: Mapping[str, Sequence[int]], width: float = WIDTH
) -> Picture:
    """Draw each layer group's table above curves of the blocks held after each token.

    Null blocks are left empty. `held` maps each way of holding blocks to a curve; all curves have the same length.
    Raises `ValueError` if a table has more than `MAX_BLOCKS` blocks.
    """
    longest = max(map(len, tables.values()))
    if longest > MAX_BLOCKS:
        raise ValueError(f"a picture can show tables of at most {MAX_BLOCKS} blocks, got {longest}")
    box = span_of(width) / longest
    rows = [_row(table, box, ROW * place) for place, table in enumerate(tables.values())]
    names = [heading(f"group-{place}", name, ROW * place + 15) for place, name in enumerate(tables)]
    most = max(max(counts) for counts in held.values())
    ends = {name: counts[-1] for name, counts in held.items()}
    num_null = sum(list(table).count(NULL_BLOCK_ID) for table in tables.values())
    sentence = f"After {len(next(iter(held.values())))} tokens: " + ", ".join(
        f"{number} blocks held {name}" for name, number in ends.items()
    )
    parts = [
        headline_part(title, f"{num_null} null blocks in the tables", width),
        Part([*names, Layer("tables", svg.joined(rows))], ROW * len(tables)),
        Part([heading("held", "blocks held", 20), Layer("curves", _curves(held, most, width))], CHART + 16),
    ]
    text = facts((name, spaced(table)) for name, table in tables.items())
    drawn = page(title, parts, f"{sentence}.", text, width)
    return drawn if width <= WIDTHS[0] else replace(drawn, narrow=windows(title, tables, held, WIDTHS[0]))


def _row(table: Sequence[int], width: float, y: float) -> Markup:
    drawn = []
    for place, block_id in enumerate(table):
        is_null = block_id == NULL_BLOCK_ID
        look: dict[str, svg.Value] = {"class_": "mv-ghost"} if is_null else {"fill": color(0)}
        shape = svg.rect(LEFT + place * width, y, width - 2, BOX, **look)
        drawn.append(svg.group(svg.tooltip("null block" if is_null else f"block {block_id}"), shape))
    return svg.joined(drawn)


def _curves(held: Mapping[str, Sequence[int]], most: int, width: float) -> Markup:
    room = span_of(width)
    drawn = [svg.line(LEFT, CHART, width - MARGIN, CHART, class_="mv-rule")]
    for place, (name, counts) in enumerate(held.items()):
        points = [
            (LEFT + room * token / len(counts), CHART - (CHART - 24) * count / most)
            for token, count in enumerate(counts, start=1)
        ]
        drawn.append(curve(points, stroke=color(place), stroke_width=2))
        drawn.append(svg.text(*_above(points[-1]), f"{name}: {counts[-1]}", class_="mv-end mv-strong mv-cased"))
    return svg.joined(drawn)


def _above(point: tuple[float, float]) -> tuple[float, float]:
    return point[0], point[1] - 6
