"""Functions for the `<!-- check: ... -->` comments in the phase 11 handout: each makes one call to the reference."""

from collections.abc import Sequence

from mini_vllm.config import EngineConfig
from mini_vllm.core.request import MultiModalFeatureSpec
from mini_vllm.runner.loading import load_model
from mini_vllm_labs.grading.plays import phase11_plays
from mini_vllm_labs.grading.plays.phase11_plays import Image
from solutions import phase11_admission_gates as reference
from tests.engine.workloads import drain, make_engine
from tests.handouts.checks.recorded import all_recorded

CAT, DOG = ("cat", 3, 6), ("dog", 12, 6)


def chunk(images: Sequence[Image], computed: int, num_new: int, budget: int, room: int) -> int:
    """Return how many tokens a chunk gets if the encoder cache is empty."""
    return int(str(phase11_plays.chunk(reference, images, computed, num_new, budget, room, ())["tokens"]))


def steps(cache_size: int, *images: Image) -> list[int]:
    """Return each step's computed tokens for a prompt of 20 tokens with these images, under a budget of 8."""
    config = EngineConfig(num_gpu_blocks=40, max_num_encoder_input_tokens=8, encoder_cache_size=cache_size)
    engine = make_engine(config, "solution:1-5,solution:11", record=True)
    features = [MultiModalFeatureSpec(*image) for image in images]
    engine.add_request("A", [7] * 20, mm_features=features)
    drain(engine)
    return [step["total"] for step in engine.recorder.steps if step["total"] > 1]


def adapter_size(rank: int) -> int:
    """Return the number of weights in an adapter for all linear layers of the embedded model."""
    layers = [layer for name, layer in load_model()[0].model.named_modules() if name.endswith("_proj")]
    return sum(rank * (layer.in_features + layer.out_features) for layer in layers)


def model_size() -> int:
    return sum(weight.numel() for weight in load_model()[0].model.parameters())


def keys(images: Sequence[Image], start: int, end: int) -> int:
    """Return how many images are part of a block's key."""
    return len(reference.generate_block_hash_extra_keys(phase11_plays.request_of("r", images), start, end)) - 2


def recordings() -> int:
    """Return how many recordings need the phase and show no defect in vLLM."""
    return sum(11 in scenario.electives and not scenario.defects for scenario in all_recorded())
