"""What drafts cost in a batch: the time of a step with and without them, by a roofline."""

from collections.abc import Sequence

from course.notebook.charts import Charts, Measure, bar_charts
from course.notebook.notice import Notice
from course.simulator.gpus import find_gpu
from course.simulator.model_shapes import find_model_shape
from course.simulator.roofline import flops_per_token, weight_bytes

GPU, MODEL = "H100", "Llama-3.1-8B"


def step_ms(num_tokens: int) -> float:
    """Return the ms of a step of so many tokens: reading the weights or computing, whichever is longer."""
    gpu, model = find_gpu(GPU), find_model_shape(MODEL)
    read = weight_bytes(model) / gpu.bandwidth
    return 1000 * max(read, num_tokens * flops_per_token(model, 0) / gpu.peak_flops)


def break_even(batch_size: int, num_drafts: int) -> float:
    """Return how many tokens per request a step must bring so that drafts cost no time."""
    return step_ms(batch_size * (1 + num_drafts)) / step_ms(batch_size)


def draft_costs(batch_sizes: Sequence[int], num_drafts: int) -> Charts | Notice:
    """Return for each batch the time of a step without and with drafts, and what a step must bring to break even."""
    measures: list[Measure[int]] = [
        Measure("step without drafts", step_ms, milliseconds),
        Measure(f"step with {num_drafts} drafts each", lambda size: step_ms(size * (1 + num_drafts)), milliseconds),
        Measure(
            "tokens per step to break even", lambda size: break_even(size, num_drafts), lambda value: f"{value:.1f}"
        ),
    ]
    words = [f"{MODEL} on an {GPU}, by a roofline: attention and the drafter itself are left out."]
    return bar_charts({f"{size} requests" if size > 1 else "1 request": size for size in batch_sizes}, measures, words)


def milliseconds(value: float) -> str:
    """Return a time in ms."""
    return f"{value:.1f} ms"
