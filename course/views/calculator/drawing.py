"""The calculator: a bar of memory, a roofline, and the figures beside it."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from course.palette import OKABE_ITO
from course.simulator import roofline
from course.simulator.gpus import GPUS
from course.simulator.model_shapes import MODEL_SHAPES
from course.views import chart, svg
from course.views.calculator import figures
from course.views.calculator.capacity import Capacity, Setup, Work, capacity_of, decode_work
from course.views.chart import LABEL, MARGIN, ChartFrame, LogScale, Point
from course.views.figures import memory
from course.views.knobs import Menu, Slide
from course.views.picture import WIDTH, Layer, Picture, read_asset
from course.views.typeset import text_width
from mini_vllm.core.cdiv import cdiv

if TYPE_CHECKING:
    from course.views.panels import Panel


FRONT_END = read_asset("calculator/limits.js") + read_asset("calculator/calculator.js")
NARROW, TWO_COLUMNS, SHARE, HIGH = 620, 500, 0.6, 230
"""Below the first width (px) the figures are below the roofline, from the second on in two columns; above the first the
chart has this share of the width."""
FACT_HEIGHT, BAR_HEIGHT, GAP = 21, 62, 20
BAR = 34
PLACES = {"weights": 4, "activations": 0, "workspace": 6, "K and V": 2}
COLOURS = {name: OKABE_ITO[place][0] for name, place in PLACES.items()}
MIN_NOTCH_DISTANCE = 5  # in px; with more requests there are no notches
TERA = 1e12
DECODE, PREFILL = OKABE_ITO[5][0], OKABE_ITO[4][0]
BATCHES = [2**k for k in range(10)]
ROOM_BELOW, ROOM_ABOVE = 0.4, 1.8  # factors on the lowest and the highest speed that keep labels inside the chart
KNOBS = (
    Menu("model", "model", "Llama-3.1-8B", tuple(shape.name for shape in MODEL_SHAPES)),
    Menu("gpu", "GPU", "H100", tuple(gpu.name for gpu in GPUS)),
    Menu("num_gpus", "number of GPUs", 1, (1, 2, 4, 8)),
    Menu("bytes_per_number", "bytes per number", 2, (1, 2)),
    Slide("gpu_memory_utilization", "gpu_memory_utilization", 0.9, 0.3, 0.98, 0.02),
    Menu("block_size", "block_size", 16, (8, 16, 32, 64, 128)),
    Menu("context_len", "context length in tokens", 8192, tuple(2**k for k in range(9, 18))),
    Slide("max_num_seqs", "max_num_seqs", 64, 1, 512, 1, "requests"),
    Menu("max_num_batched_tokens", "max_num_batched_tokens", 2048, tuple(2**k for k in range(9, 16))),
)


def calculator() -> "Panel":
    """Return knobs for model, GPU and engine over the memory and the top speed that these allow.

    The page computes and draws it, with the formulas and the tables of the simulator.
    """
    from course.views.panels import Panel

    return Panel(KNOBS, draw, reflows=True, in_browser=(FRONT_END, tables()))


def tables() -> dict[str, Any]:
    derived = ("num_matrix_parameters", "num_embedding_parameters", "num_parameters", "num_parameters_read")
    shapes = {shape.name: asdict(shape) | {name: getattr(shape, name) for name in derived} for shape in MODEL_SHAPES}
    return {
        "gpus": {gpu.name: asdict(gpu) for gpu in GPUS},
        "shapes": shapes,
        "workspace_bytes": roofline.WORKSPACE_BYTES,
        "batches": BATCHES,
        "colours": COLOURS | {"decode": DECODE, "prefill": PREFILL},
        "css": read_asset("picture.css"),
    }


def draw(*, width: float = WIDTH, before: Any = None, **values: Any) -> Picture:
    """Return the picture of a setup by its settings. Raises `ValueError` as `capacity_of`."""
    return calculator_picture(capacity_of(Setup(**values)), width)


def calculator_picture(capacity: Capacity, width: float = WIDTH) -> Picture:
    is_narrow, room = width < NARROW, width - 2 * MARGIN
    heading, y = chart.head(figures.title(capacity), [], width)
    bar_y, columns = y + 24, 2 if is_narrow else 3
    roof_y = bar_y + BAR_HEIGHT + 20 * cdiv(5, columns) - 4
    place = ChartFrame(50, width - MARGIN if is_narrow else SHARE * width, 64, 64 + (HIGH - 60 if is_narrow else HIGH))
    facts_x, facts_y = (MARGIN, roof_y + place.bottom + 44) if is_narrow else (place.right + 26, roof_y)
    facts, facts_height = facts_table(capacity, width - MARGIN - facts_x, 2 if TWO_COLUMNS <= width < NARROW else 1)
    below = max(facts_y + facts_height, roof_y + place.bottom + 44)
    words = "" if is_narrow and not capacity.problem else figures.sentence(capacity)
    last, height = chart.foot(words, below + 6, width, "mv-alert" if capacity.problem else "")
    layers = (
        Layer("headline", heading),
        Layer("memory", memory_bar(capacity, room, columns), x=MARGIN, y=bar_y),
        Layer("roofline", roof(capacity, place), y=roof_y),
        Layer("facts", facts, x=facts_x, y=facts_y),
        last,
    )
    text = figures.text_alternative(capacity)
    return Picture(figures.title(capacity), height, layers, figures.sentence(capacity), text, width)


def facts_table(capacity: Capacity, width: float, columns: int) -> tuple[svg.Markup, float]:
    rows, parts = figures.table(capacity), []
    each, room = -(-len(rows) // columns), (width + GAP) / columns - GAP
    for n, (name, value) in enumerate(rows):
        x, y = n // each * (room + GAP), 14 + n % each * FACT_HEIGHT
        parts.append(svg.text(x, y, name, class_="mv-faint"))
        parts.append(svg.text(x + room, y, value, class_="mv-strong mv-end"))
        parts.append(svg.line(x, y + 6, x + room, y + 6, class_="mv-rule", stroke_opacity=0.6))
    return svg.joined(parts), 14.0 + each * FACT_HEIGHT


def memory_bar(capacity: Capacity, width: float, columns: int) -> svg.Markup:
    """Return the bar with its top at 0, a line of text above it and a legend in columns below.

    A notch in the part of K and V separates two requests. Parts that do not fit run over the edge.
    """
    parts = figures.memory_parts(capacity)
    scale = width / max(capacity.memory_bytes, sum(size for _, size in parts))
    drawn, x = [svg.rect(0, 0, capacity.memory_bytes * scale, BAR, class_="mv-panel")], 0.0
    for name, size in parts:
        if name in COLOURS:
            about = svg.tooltip(f"{name}: {memory(size)}")
            drawn.append(svg.group(about, svg.rect(x, 0, size * scale, BAR, fill=COLOURS[name])))
        if name == "K and V":
            drawn.append(notches(capacity, x, scale))
        x += size * scale
    drawn.append(limits(capacity, scale, width))
    drawn.append(legend(parts, width, columns))
    return svg.joined(drawn)


def notches(capacity: Capacity, left: float, scale: float) -> svg.Markup:
    """Return a line after each request that fits, unless the lines would be too close."""
    blocks_each = cdiv(capacity.setup.context_len, capacity.setup.block_size)
    step = blocks_each * capacity.kv_bytes_per_block * scale
    if step < MIN_NOTCH_DISTANCE:
        return svg.Markup("")
    ends = (left + n * step for n in range(1, capacity.concurrency + 1))
    data = "".join(f"M{svg.number(x)} 0v{BAR}" for x in ends)
    return svg.path(data, stroke="#000", stroke_opacity=0.45, class_="notches")


def limits(capacity: Capacity, scale: float, width: float) -> svg.Markup:
    """Return the end of the share that may be used, and a frame around the memory if the parts do not fit."""
    x, share = capacity.usable_bytes * scale, figures.limit_text(capacity)
    end = min(max(x, text_width(share, 12)), width)
    parts = [svg.line(x, -5, x, BAR + 5, class_="mv-line", stroke_width=2), svg.text(end, -10, share, class_="mv-end")]
    if capacity.problem:
        parts.append(svg.rect(0, 0, capacity.memory_bytes * scale, BAR, class_="mv-alert-line", stroke_width=2))
    return svg.joined(parts)


def legend(parts: list[tuple[str, int]], width: float, columns: int) -> svg.Markup:
    drawn = []
    for n, (name, size) in enumerate(parts):
        x, y = n % columns * width / columns, BAR + 12 + 20 * (n // columns)
        look: dict[str, svg.Value] = {"fill": COLOURS[name]} if name in COLOURS else {"class_": "mv-panel"}
        drawn += [svg.rect(x, y, 12, 12, rx=2, **look), svg.text(x + 18, y + 10, f"{name} {memory(size)}")]
    return svg.joined(drawn)


def roof(capacity: Capacity, at: ChartFrame) -> svg.Markup:
    """Return the chart: the roof, decode in batches from 1 up, the batch that runs, and a prompt."""
    decode, prefill, ridge = capacity.decode, capacity.prefill, capacity.ridge
    steps = [decode_work(capacity.setup, capacity.gpu, capacity.shape, batch) for batch in BATCHES]
    across = LogScale.around([*(w.intensity for w in (*steps, decode, prefill)), ridge], at.left, at.right)
    lowest, peak = across.low * capacity.bandwidth / TERA, capacity.peak_flops / TERA
    up = LogScale.around([ROOM_BELOW * lowest, ROOM_ABOVE * peak], at.bottom, at.top)

    def place(work: Work) -> Point:
        return across(work.intensity), up(work.flop_rate / TERA)

    start = (at.left, up(lowest))
    corner, end = (across(ridge), up(peak)), (at.right, up(peak))
    fit = [work for work in steps if work.num_tokens <= capacity.concurrency]
    dots = f"dots: decode of 1, 2, 4 ... {BATCHES[-1]} requests; coloured: they fit"
    return svg.joined(
        [
            svg.text(MARGIN, 14, f"Roofline: {figures.roof_text(capacity)}", class_="mv-strong"),
            svg.text(MARGIN, 32, dots, class_="mv-faint"),
            svg.text(MARGIN, at.top - 9, "TFLOP/s", class_="mv-faint"),
            svg.text((at.left + at.right) / 2, at.bottom + 30, "operations per byte read", class_="mv-faint mv-middle"),
            chart.x_axis(across, at.top, at.bottom, lambda value: f"{value:,g}"),
            chart.y_axis([(up(value), f"{value:,g}") for value in up.ticks()], at.left, at.right),
            svg.line(corner[0], corner[1], corner[0], at.bottom, class_="mv-ghost"),
            chart.curve([start, corner, end], class_="mv-line", stroke_width=2.5),
            chart.cloud((place(work) for work in steps), 3, class_="mv-rule"),
            chart.cloud((place(work) for work in fit), 3, stroke=DECODE),
            chart.dot(place(prefill), PREFILL, 6),
            chart.dot(place(decode), DECODE, 6),
            chart.above_left(place(prefill), f"prefill {figures.per_second(prefill)}", at.left + 4),
            text_below(place(decode), f"decode {figures.per_second(decode)}", at.right),
        ]
    )


def text_below(point: Point, content: str, right: float) -> svg.Markup:
    """Return text under a point, to the right of it as far as there is room."""
    x, y = min(point[0] + 7, right - text_width(content, LABEL, bold=True)), point[1] + 20
    return svg.text(x, y, content, class_="mv-strong mv-cased")
