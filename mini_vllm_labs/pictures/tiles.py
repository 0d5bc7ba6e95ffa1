"""Draws a request's tile for every picture: its colour, its label, and marks that distinguish repeated colours."""

from collections.abc import Sequence

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.svg import Markup, Value
from mini_vllm_labs.pictures.typeset import text_width
from mini_vllm_labs.runs.palette import color, ink_on, lap

MARK, MAX_MARKS, SIZE = 2, 4, 12


def tile(index: int, label: str, x: float, y: float, width: float, height: float, *, hatched: bool = False) -> Markup:
    """Draw a box in the colour of request `index`: hatched for prefill, otherwise solid.

    The label is omitted if it does not fit.
    """
    parts = [svg.rect(x, y, width, height, rx=min(3, width / 4), fill=color(index))]
    if hatched:
        parts.append(svg.hatch(x, y, width, height, stroke=ink_on(index)))
    parts.append(marks(index, x, y, width, height))
    if label and text_width(label, SIZE, bold=True) <= width:
        parts.append(on_tile(index, x + width / 2, y + baseline(index, height), label, halo=hatched))
    return svg.joined(parts)


def baseline(index: int, height: float) -> float:
    """Return the y position of a label's baseline in a box: the label is centred above the marks."""
    # 0.36 is the distance from a letter's middle down to its baseline.
    return (height - (MARK + 1) * bool(lap(index))) / 2 + SIZE * 0.36


def on_tile(index: int, x: float, y: float, content: str, *, halo: bool = False) -> Markup:
    """Draw text, centred at x, that is legible on the colour of request `index`; a halo separates it from hatching."""
    around: dict[str, Value] = {"stroke": color(index), "stroke_width": 4, "paint_order": "stroke"} if halo else {}
    style = f"fill:{ink_on(index)}"
    return svg.text(x, y, content, class_="mv-middle mv-strong", font_size=SIZE, style=style, **around)


def marks(index: int, x: float, y: float, width: float, height: float) -> Markup:
    """Draw a dash at the bottom of a box for each earlier request with the same colour.

    The dashes begin at the left, because a dash in the middle would make an I look like an exclamation mark.
    """
    num_dashes = min(lap(index), MAX_MARKS)
    long = min(5.0, width / (2 * MAX_MARKS + 1))
    return svg.joined(
        svg.rect(x + (2 * place + 1) * long, y + height - MARK - 0.5, long, MARK, fill=ink_on(index), class_="mv-mark")
        for place in range(num_dashes)
    )


def striped(indices: Sequence[int], x: float, y: float, width: float, height: float) -> Markup:
    """Draw a box with a band in the colour of each request that holds it, framed if there are several."""
    if len(indices) == 1:
        return tile(indices[0], "", x, y, width, height)
    shown = indices[:MAX_MARKS]
    band = height / len(shown)
    bands = [svg.rect(x, y + place * band, width, band, fill=color(index)) for place, index in enumerate(shown)]
    frame = svg.rect(x + 0.75, y + 0.75, width - 1.5, height - 1.5, class_="mv-line mv-shared", stroke_width=1.5)
    return svg.joined([*bands, frame])


def on_stripes(indices: Sequence[int], x: float, y: float, content: str) -> Markup:
    """Draw text, centred at x, on a box from `striped`; on several colours, the text gets a plain background."""
    if len(indices) == 1:
        return on_tile(indices[0], x, y, content)
    half = text_width(content, SIZE) / 2 + 1
    ground = svg.rect(x - half, y - 0.9 * SIZE, 2 * half, 1.1 * SIZE, rx=2, class_="mv-paper")
    return svg.joined([ground, svg.text(x, y, content, class_="mv-middle mv-strong", font_size=SIZE)])
