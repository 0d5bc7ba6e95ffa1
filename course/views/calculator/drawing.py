"""The calculator: a bar of memory, a roofline, and the figures beside it."""

from typing import TYPE_CHECKING, Any

from course.simulator.gpus import GPUS
from course.simulator.model_shapes import MODEL_SHAPES
from course.views import svg
from course.views.calculator.capacity import Capacity, Setup, capacity_of
from course.views.calculator.figures import sentence, table, text_alternative, title
from course.views.calculator.memory_bar import memory_bar
from course.views.calculator.roof import roof
from course.views.chart import sheet
from course.views.knobs import Choice, Slide
from course.views.picture import Layer, Picture
from course.views.show import panel
from course.views.svg import Markup

if TYPE_CHECKING:
    from course.views.widgets import Panel

LEFT, RIGHT = 10, 710
BAR, ROOF = 60, 142
FACTS_LEFT, FACT_HEIGHT = 460, 24
SENTENCE = ROOF + 338
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
    """Return knobs for model, GPU and engine over the memory and the speed that they allow at best."""
    return panel(KNOBS, draw)


def draw(**values: Any) -> Picture:
    """Return the picture of a setup by its settings. Raises `ValueError` as `capacity_of`."""
    return calculator_picture(capacity_of(Setup(**values)))


def calculator_picture(capacity: Capacity) -> Picture:
    """Return the use of the memory, and the speed limits of decode and prefill."""
    layers = [
        Layer("memory", memory_bar(capacity, RIGHT - LEFT), x=LEFT, y=BAR),
        Layer("roofline", roof(capacity), y=ROOF),
        Layer("facts", figures(capacity), x=FACTS_LEFT, y=ROOF),
    ]
    look = "mv-alert" if capacity.problem else ""
    return sheet(title(capacity), layers, SENTENCE, sentence(capacity), text_alternative(capacity), look)


def figures(capacity: Capacity) -> Markup:
    """Return the figures as a table."""
    width, parts = RIGHT - FACTS_LEFT, []
    for n, (name, value) in enumerate(table(capacity)):
        y = 14 + n * FACT_HEIGHT
        parts.append(svg.text(0, y, name, class_="mv-faint"))
        parts.append(svg.text(width, y, value, class_="mv-strong mv-end"))
        parts.append(svg.line(0, y + 7, width, y + 7, class_="mv-rule", stroke_opacity=0.6))
    return svg.joined(parts)
