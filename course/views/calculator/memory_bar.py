"""The memory of the GPUs as a bar, divided by use."""

from course.palette import OKABE_ITO
from course.views import svg
from course.views.calculator.capacity import Capacity
from course.views.calculator.figures import limit_text, memory_parts
from course.views.figures import memory
from course.views.svg import Markup
from course.views.typeset import text_width
from mini_vllm.core.cdiv import cdiv

HEIGHT = 34
COLOURS = {"weights": OKABE_ITO[4][0], "workspace": OKABE_ITO[6][0], "K and V": OKABE_ITO[2][0]}
CLOSEST = 5
"""The least distance between two notches, in px; with more requests there are none."""


def memory_bar(capacity: Capacity, width: float, columns: int) -> Markup:
    """Return the bar with its top at 0, a line of text above it and a legend in columns below.

    A notch in the part of K and V separates two requests. Parts that do not fit run over the edge.
    """
    parts = memory_parts(capacity)
    scale = width / max(capacity.memory_bytes, sum(size for _, size in parts))
    drawn, x = [svg.rect(0, 0, capacity.memory_bytes * scale, HEIGHT, class_="mv-panel")], 0.0
    for name, size in parts:
        if name in COLOURS:
            about = svg.tooltip(f"{name}: {memory(size)}")
            drawn.append(svg.group(about, svg.rect(x, 0, size * scale, HEIGHT, fill=COLOURS[name])))
        if name == "K and V":
            drawn.append(notches(capacity, x, scale))
        x += size * scale
    drawn.append(limits(capacity, scale, width))
    drawn.append(legend(parts, width, columns))
    return svg.joined(drawn)


def notches(capacity: Capacity, left: float, scale: float) -> Markup:
    """Return a line after each request that fits, unless the lines would be too close."""
    blocks_each = cdiv(capacity.setup.context_len, capacity.setup.block_size)
    step = blocks_each * capacity.kv_bytes_per_block * scale
    if step < CLOSEST:
        return Markup("")
    ends = (left + n * step for n in range(1, capacity.concurrency + 1))
    return svg.path(
        "".join(f"M{svg.number(x)} 0v{HEIGHT}" for x in ends), stroke="#000", stroke_opacity=0.45, class_="notches"
    )


def limits(capacity: Capacity, scale: float, width: float) -> Markup:
    """Return the end of the share that may be used, and a frame around the memory if the parts do not fit."""
    x = capacity.usable_bytes * scale
    share = limit_text(capacity)
    end = min(max(x, text_width(share, 12)), width)
    parts = [
        svg.line(x, -5, x, HEIGHT + 5, class_="mv-line", stroke_width=2),
        svg.text(end, -10, share, class_="mv-end"),
    ]
    if capacity.problem:
        edge = capacity.memory_bytes * scale
        parts.append(svg.rect(0, 0, edge, HEIGHT, class_="mv-alert-line", stroke_width=2))
    return svg.joined(parts)


def legend(parts: list[tuple[str, int]], width: float, columns: int) -> Markup:
    """Return the colour, name and size of each part."""
    drawn = []
    for n, (name, size) in enumerate(parts):
        x, y = n % columns * width / columns, HEIGHT + 12 + 20 * (n // columns)
        look: dict[str, svg.Value] = {"fill": COLOURS[name]} if name in COLOURS else {"class_": "mv-panel"}
        drawn += [svg.rect(x, y, 12, 12, rx=2, **look), svg.text(x + 18, y + 10, f"{name} {memory(size)}")]
    return svg.joined(drawn)
