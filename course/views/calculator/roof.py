"""The roofline: the speed that an amount of work per byte allows, with decode and prefill below it."""

from course.palette import OKABE_ITO
from course.views import svg
from course.views.calculator.capacity import Capacity, Work, decode_work
from course.views.calculator.figures import per_second, roof_text
from course.views.chart import LABEL, MARGIN, Frame, LogScale, Point, above_left, cloud, curve, dot, x_axis, y_axis
from course.views.svg import Markup
from course.views.typeset import text_width

TERA = 1e12
DECODE, PREFILL = OKABE_ITO[5][0], OKABE_ITO[4][0]
BATCHES = [2**k for k in range(10)]
ROOM_BELOW, ROOM_ABOVE = 0.4, 1.8
"""Factors on the lowest and the highest speed that keep labels inside the chart."""


def roof(capacity: Capacity, at: Frame) -> Markup:
    """Return the chart: the roof, decode in batches from 1 up, the batch that runs, and a prompt."""
    decode, prefill, ridge = capacity.decode, capacity.prefill, capacity.ridge
    steps = [decode_work(capacity.setup, capacity.gpu, capacity.shape, batch) for batch in BATCHES]
    across = LogScale.around([*(w.intensity for w in (*steps, decode, prefill)), ridge], at.left, at.right)
    lowest, peak = across.low * capacity.bandwidth / TERA, capacity.peak_flops / TERA
    up = LogScale.around([ROOM_BELOW * lowest, ROOM_ABOVE * peak], at.bottom, at.top)

    def place(work: Work) -> tuple[float, float]:
        return across(work.intensity), up(work.flop_rate / TERA)

    start = (at.left, up(lowest))
    corner, end = (across(ridge), up(peak)), (at.right, up(peak))
    fit = [work for work in steps if work.num_tokens <= capacity.concurrency]
    return svg.joined(
        [
            heading(capacity, at),
            x_axis(across, at.top, at.bottom, lambda value: f"{value:,g}"),
            y_axis([(up(value), f"{value:,g}") for value in up.ticks()], at.left, at.right),
            svg.line(corner[0], corner[1], corner[0], at.bottom, class_="mv-ghost"),
            curve([start, corner, end], class_="mv-line", stroke_width=2.5),
            cloud((place(work) for work in steps), 3, class_="mv-rule"),
            cloud((place(work) for work in fit), 3, stroke=DECODE),
            dot(place(prefill), PREFILL, 6),
            dot(place(decode), DECODE, 6),
            above_left(place(prefill), f"prefill {per_second(prefill)}", at.left + 4),
            below(place(decode), f"decode {per_second(decode)}", at.right),
        ]
    )


def below(point: Point, content: str, right: float) -> Markup:
    """Return text under a point, to the right of it as far as there is room."""
    x, y = point
    return svg.text(
        min(x + 7, right - text_width(content, LABEL, bold=True)), y + 20, content, class_="mv-strong mv-cased"
    )


def heading(capacity: Capacity, at: Frame) -> Markup:
    """Return the speeds of the roof, and the meaning of the axes and dots."""
    dots = f"dots: decode of 1, 2, 4 ... {BATCHES[-1]} requests; coloured: they fit"
    return svg.joined(
        [
            svg.text(MARGIN, 14, f"Roofline: {roof_text(capacity)}", class_="mv-strong"),
            svg.text(MARGIN, 32, dots, class_="mv-faint"),
            svg.text(MARGIN, at.top - 9, "TFLOP/s", class_="mv-faint"),
            svg.text((at.left + at.right) / 2, at.bottom + 30, "operations per byte read", class_="mv-faint mv-middle"),
        ]
    )
