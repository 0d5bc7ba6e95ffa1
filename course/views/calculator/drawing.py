"""The calculator: a bar of memory, a roofline, and the figures beside it."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from course.simulator import roofline
from course.simulator.gpus import GPUS
from course.simulator.model_shapes import MODEL_SHAPES
from course.views import svg
from course.views.calculator.capacity import Capacity, Setup, capacity_of
from course.views.calculator.figures import sentence, table, text_alternative, title
from course.views.calculator.memory_bar import COLOURS, memory_bar
from course.views.calculator.roof import BATCHES, DECODE, PREFILL, roof
from course.views.chart import MARGIN, Frame, foot, head
from course.views.knobs import Choice, Slide
from course.views.picture import WIDTH, Layer, Picture, read_asset
from course.views.show import panel
from course.views.svg import Markup

if TYPE_CHECKING:
    from course.views.panels import Panel

FRONT_END = read_asset("calculator/limits.js") + read_asset("calculator/calculator.js")
NARROW, TWO_COLUMNS, SHARE, HIGH = 620, 500, 0.6, 230
"""Below the first width (px) the figures are below the roofline, from the second on in two columns; above the first the
chart has this share of the width."""
FACT_HEIGHT, BAR_HEIGHT, GAP = 21, 62, 20
KNOBS = (
    Choice("model", "model", "Llama-3.1-8B", tuple(shape.name for shape in MODEL_SHAPES)),
    Choice("gpu", "GPU", "H100", tuple(gpu.name for gpu in GPUS)),
    Choice("num_gpus", "number of GPUs", 1, (1, 2, 4, 8)),
    Choice("bytes_per_number", "bytes per number", 2, (1, 2)),
    Slide("gpu_memory_utilization", "gpu_memory_utilization", 0.9, 0.3, 0.98, 0.02),
    Choice("block_size", "block_size", 16, (8, 16, 32, 64, 128)),
    Choice("context_len", "context length in tokens", 8192, tuple(2**k for k in range(9, 18))),
    Slide("max_num_seqs", "max_num_seqs", 64, 1, 512, 1, "requests"),
)


def calculator() -> "Panel":
    """Return knobs for model, GPU and engine over the memory and the speed that they allow at best.

    The page computes and draws it, with the formulas and the tables of the simulator.
    """
    return panel(KNOBS, draw, reflows=True, in_browser=(FRONT_END, tables()))


def tables() -> dict[str, Any]:
    """Return the GPUs, the models and the constants that the page needs."""
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
    """Return the use of the memory, and the speed limits of decode and prefill."""
    is_narrow, room = width < NARROW, width - 2 * MARGIN
    heading, y = head(title(capacity), [], width)
    bar_y, columns = y + 24, 2 if is_narrow else 4
    roof_y = bar_y + BAR_HEIGHT + 20 * (4 // columns) - 4
    place = Frame(50, width - MARGIN if is_narrow else SHARE * width, 64, 64 + (HIGH - 60 if is_narrow else HIGH))
    facts_x, facts_y = (MARGIN, roof_y + place.bottom + 44) if is_narrow else (place.right + 26, roof_y)
    facts, facts_height = figures(capacity, width - MARGIN - facts_x, 2 if TWO_COLUMNS <= width < NARROW else 1)
    below = max(facts_y + facts_height, roof_y + place.bottom + 44)
    words = "" if is_narrow and not capacity.problem else sentence(capacity)
    last, height = foot(words, below + 6, width, "mv-alert" if capacity.problem else "")
    layers = (
        Layer("headline", heading),
        Layer("memory", memory_bar(capacity, room, columns), x=MARGIN, y=bar_y),
        Layer("roofline", roof(capacity, place), y=roof_y),
        Layer("facts", facts, x=facts_x, y=facts_y),
        last,
    )
    return Picture(title(capacity), height, layers, sentence(capacity), text_alternative(capacity), width)


def figures(capacity: Capacity, width: float, columns: int) -> tuple[Markup, float]:
    """Return the figures as a table, and its height."""
    rows, parts = table(capacity), []
    each, room = -(-len(rows) // columns), (width + GAP) / columns - GAP
    for n, (name, value) in enumerate(rows):
        x, y = n // each * (room + GAP), 14 + n % each * FACT_HEIGHT
        parts.append(svg.text(x, y, name, class_="mv-faint"))
        parts.append(svg.text(x + room, y, value, class_="mv-strong mv-end"))
        parts.append(svg.line(x, y + 6, x + room, y + 6, class_="mv-rule", stroke_opacity=0.6))
    return svg.joined(parts), 14.0 + each * FACT_HEIGHT
