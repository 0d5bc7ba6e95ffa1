"""Builds the calculator: knobs above a memory bar, a roofline and figures. The page computes and draws everything."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mini_vllm_labs.pictures.knobs import Menu, Slider
from mini_vllm_labs.pictures.picture import Layer, Picture, read_asset
from mini_vllm_labs.pictures.svg import Markup
from mini_vllm_labs.runs.palette import OKABE_ITO
from mini_vllm_labs.simulation import roofline
from mini_vllm_labs.simulation.gpus import GPUS
from mini_vllm_labs.simulation.model_shapes import MODEL_SHAPES

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.panels import Panel

FRONT_END = read_asset("calculator/limits.js") + read_asset("calculator/calculator.js")
FIRST = "calculator/first.json"  # written by `python -m mini_vllm_labs.upkeep.pictures.calculator`
PLACES = {"weights": 4, "activations": 0, "workspace": 6, "K and V": 2, "decode": 5, "prefill": 4}
BATCHES = [2**k for k in range(10)]
KNOBS = (
    Menu("model", "model", "Llama-3.1-8B", tuple(shape.name for shape in MODEL_SHAPES)),
    Menu("gpu", "GPU", "H100", tuple(gpu.name for gpu in GPUS)),
    Menu("num_gpus", "number of GPUs", 1, (1, 2, 4, 8)),
    Menu("bytes_per_number", "bytes per number", 2, (1, 2)),
    Slider("gpu_memory_utilization", "gpu_memory_utilization", 0.9, 0.3, 0.98, 0.02),
    Menu("block_size", "block_size", 16, (8, 16, 32, 64, 128)),
    Menu("context_len", "context length in tokens", 8192, tuple(2**k for k in range(9, 18))),
    Slider("max_num_seqs", "max_num_seqs", 64, 1, 512, 1, "requests"),
    Menu("max_num_batched_tokens", "max_num_batched_tokens", 2048, tuple(2**k for k in range(9, 16))),
)


def calculator() -> "Panel":
    """Return knobs for the model, GPU and engine, above the resulting memory use and top speed.

    The page draws from the simulator's tables; if scripts are disabled, it shows the first picture.
    """
    from mini_vllm_labs.pictures.panels import Panel

    return Panel(KNOBS, lambda **_: calculator_picture(), reflows=True, in_browser=(FRONT_END, tables()))


def calculator_picture() -> Picture:
    """Return the page's picture for the knobs' initial values."""
    first = json.loads(read_asset(FIRST))
    layers = (Layer("calculator", Markup(first["content"])),)
    return Picture(first["title"], first["height"], layers, first["sentence"], first["text_alternative"])


def tables() -> dict[str, Any]:
    derived = ("num_matrix_parameters", "num_embedding_parameters", "num_parameters", "num_parameters_read")
    shapes = {shape.name: asdict(shape) | {name: getattr(shape, name) for name in derived} for shape in MODEL_SHAPES}
    return {
        "gpus": {gpu.name: asdict(gpu) for gpu in GPUS},
        "shapes": shapes,
        "workspace_bytes": roofline.WORKSPACE_BYTES,
        "batches": BATCHES,
        "colours": {name: OKABE_ITO[place][0] for name, place in PLACES.items()},
        "css": read_asset("picture.css"),
    }
