"""Provides the benchmark models as directories that every backend can load.

Each function imports torch itself, because the client of a server must stay lightweight.
"""

from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.bench.peer_process import PeerError

EMBEDDED, RANDOM, RANDOM_20M = "embedded", "random-150m", "random-20m"
EMBEDDED_MODEL = CHECKOUT / "mini_vllm" / "embedded_model"
RANDOM_MODEL: dict[str, Any] = {
    "vocab_size": 8192,
    "hidden_size": 1024,
    "num_hidden_layers": 12,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "intermediate_size": 2816,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
    "bos_token_id": None,
    "eos_token_id": None,  # with random weights, texts would end at random
    "pad_token_id": 0,
}
SMALLER_MODEL = RANDOM_MODEL | {
    "hidden_size": 384,
    "num_hidden_layers": 10,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "intermediate_size": 1152,
}
RANDOM_MODELS = {RANDOM: RANDOM_MODEL, RANDOM_20M: SMALLER_MODEL}
LARGE_VOCABULARY = RANDOM_MODEL | {  # the shape of Qwen3-0.6B, but with 2 of its 28 layers
    "vocab_size": 151_936,
    "num_hidden_layers": 2,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 3072,
}


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The sizes that determine how much data a forward pass must read and how much it must compute."""

    vocab_size: int
    num_parameters: int
    layer_weights: int  # weights of the linear layers, through which every token passes
    head_weights: int  # weights of the output layer, used only for positions that are sampled
    kv_numbers_per_token: int
    attention_width: int  # layers times heads times head size: each attended token costs 4 operations per unit


QWEN3_SHAPE = LARGE_VOCABULARY | {"num_hidden_layers": 28, "max_position_embeddings": 40_960}  # Qwen3-0.6B's


def model_directory(model: str, folder: Path) -> Path:
    """Return the path to `embedded`, to a random model (made in `folder`), or to a directory with a model.

    Raises `ValueError` if there is no such model, and `PeerError` if the random model could not be created.
    """
    directory = EMBEDDED_MODEL if model == EMBEDDED else Path(model)
    if model in RANDOM_MODELS:
        directory = folder / model
        making = get_context("spawn").Process(target=save_random_model, args=(directory, RANDOM_MODELS[model]))
        making.start()
        making.join()
        if making.exitcode != 0:
            raise PeerError(f"could not create {model}: exit code {making.exitcode}")
    if not (directory / "config.json").exists():
        raise ValueError(
            f"--model {model}: there is no config.json in {directory}; name a different folder, or use "
            f"{', '.join((EMBEDDED, *RANDOM_MODELS))}"
        )
    return directory.resolve()


def save_random_model(
    directory: Path, sizes: dict[str, Any] = RANDOM_MODEL, family: str = "llama", dtype: str = "float32"
) -> Path:
    """Save a model with random weights, about 150 million by default, together with the course's tokenizer."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    torch.manual_seed(0)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    config = AutoConfig.for_model(family, **sizes)
    model: Any = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))  # type: ignore[no-untyped-call]
    model.save_pretrained(directory)
    AutoTokenizer.from_pretrained(EMBEDDED_MODEL).save_pretrained(directory)
    return directory


def model_size(directory: str | Path) -> ModelSize:
    """Compute the sizes from a model's config without loading weights. Raises the same `ValueError` as loading the
    model."""
    import torch
    from torch import nn
    from transformers import AutoModelForCausalLM

    from mini_vllm.runner.model_folder import open_config

    config = open_config(Path(directory))[1]
    with torch.device("meta"):  # only shapes, so the weights do not take up memory
        model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    linear = {name: m.weight.numel() for name, m in model.named_modules() if isinstance(m, nn.Linear)}
    head = linear.pop("lm_head", 0)
    heads, layers = config.num_attention_heads, config.num_hidden_layers
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    return ModelSize(
        config.vocab_size,
        sum(weight.numel() for weight in model.parameters()),
        sum(linear.values()),
        head,
        2 * layers * kv_heads * head_dim,
        layers * heads * head_dim,
    )
