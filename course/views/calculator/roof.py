"""The roofline: the speed that an amount of work per byte allows, with decode and prefill below it."""

from course.palette import OKABE_ITO
from course.views import svg
from course.views.calculator.capacity import Capacity, Work, decode_work
from course.views.calculator.figures import per_second, roof_text
from course.views.chart import LABEL, LogScale, Point, above_left, cloud, curve, dot, x_axis, y_axis
from course.views.svg import Markup
from course.views.typeset import text_width

LEFT, RIGHT, TOP, BOTTOM = 50, 430, 52, 282
TERA = 1e12
DECODE, PREFILL = OKABE_ITO[5][0], OKABE_ITO[4][0]
BATCHES = [2**k for k in range(10)]
ROOM_BELOW, ROOM_ABOVE = 0.4, 1.8
"""Factors on the lowest and the highest speed that keep labels inside the chart."""


def roof(capacity: Capacity) -> Markup:
    """Return the chart: the roof, decode in batches from 1 up, the batch that runs, and a prompt."""
    decode, prefill, ridge = capacity.decode, capacity.prefill, capacity.ridge
    steps = [decode_work(capacity.setup, capacity.gpu, capacity.shape, batch) for batch in BATCHES]
    across = LogScale.around([*(w.intensity for w in (*steps, decode, prefill)), ridge], LEFT, RIGHT)
    lowest, peak = across.low * capacity.bandwidth / TERA, capacity.peak_flops / TERA
    up = LogScale.around([ROOM_BELOW * lowest, ROOM_ABOVE * peak], BOTTOM, TOP)

    def place(work: Work) -> tuple[float, float]:
        return across(work.intensity), up(work.flop_rate / TERA)

    start = (LEFT, up(lowest))
    corner, end = (across(ridge), up(peak)), (RIGHT, up(peak))
    fit = [work for work in steps if work.num_tokens <= capacity.concurrency]
    return svg.joined(
        [
            heading(capacity),
            x_axis(across, TOP, BOTTOM, lambda value: f"{value:,g}"),
            y_axis([(up(value), f"{value:,g}") for value in up.ticks()], LEFT, RIGHT),
            svg.line(corner[0], corner[1], corner[0], BOTTOM, class_="mv-ghost"),
            curve([start, corner, end], class_="mv-line", stroke_width=2.5),
            cloud((place(work) for work in steps), 3, class_="mv-rule"),
            cloud((place(work) for work in fit), 3, stroke=DECODE),
            dot(place(prefill), PREFILL, 6),
            dot(place(decode), DECODE, 6),
            above_left(place(prefill), f"prefill {per_second(prefill)}", LEFT + 4),
            below(place(decode), f"decode {per_second(decode)}"),
        ]
    )


def below(point: Point, content: str) -> Markup:
    """Return text under a point, to the right of it as far as there is room."""
    x, y = point
    return svg.text(
        min(x + 7, RIGHT - text_width(content, LABEL, bold=True)), y + 20, content, class_="mv-strong mv-cased"
    )


def heading(capacity: Capacity) -> Markup:
    """Return the speeds of the roof, and the meaning of the axes and dots."""
    middle = (LEFT + RIGHT) / 2
    dots = f"dots: decode batches of 1, 2, 4 ... {BATCHES[-1]} requests; coloured: they fit"
    return svg.joined(
        [
            svg.text(10, 14, f"Roofline: {roof_text(capacity)}", class_="mv-strong"),
            svg.text(10, 30, dots, class_="mv-small mv-faint"),
            svg.text(10, 45, "TFLOP/s", class_="mv-small mv-faint"),
            svg.text(middle, BOTTOM + 30, "operations per byte read", class_="mv-small mv-faint mv-middle"),
        ]
    )
