"""Load a model and its tokenizer from a directory or a hub name; refuse models the paged cache cannot serve."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from mini_vllm.config import EngineConfig
from mini_vllm.freed_memory import keep_freed_memory
from mini_vllm.runner.contract import check_attention_contract, require_replaceable_attention
from mini_vllm.runner.generation_settings import own_repetition_penalty, warn_of_settings
from mini_vllm.runner.layer_groups import LayerGroups
from mini_vllm.runner.model_limits import SLIDING, check_config, longest_exact_text
from mini_vllm.runner.model_tokenizer import ModelTokenizer
from mini_vllm.runner.packed_linear import pack_linear_layers

EMBEDDED_MODEL = Path(__file__).parents[1] / "embedded_model"
EMBEDDED_DRAFT_MODEL = EMBEDDED_MODEL / "draft"
SMALL_MODEL_PARAMETERS = 50_000_000
NUM_COMPARED_WEIGHTS = 64


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A transformers model and the sizes that the KV cache depends on. `digest` tells it from others.

    `repetition_penalty` is for requests that set none.
    """

    model: Any
    digest: str
    eos_token_ids: frozenset[int]
    max_model_len: int
    num_layers: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    groups: LayerGroups
    repetition_penalty: float = 1.0

    @property
    def device(self) -> torch.device:
        return torch.device(self.model.device)

    @property
    def dtype(self) -> torch.dtype:
        return torch.get_default_dtype() if self.model.dtype is None else self.model.dtype


def pick_device() -> torch.device:
    """Return the GPU if torch has one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def load_model(
    name_or_path: str | None = None, dtype: str = "float32", *, prepack_weights: bool = False
) -> tuple[LoadedModel, ModelTokenizer]:
    """Load a decoder-only model by `AutoModelForCausalLM`; None is the embedded one.

    `prepack_weights` makes it faster on a CPU; it can then no longer be saved or trained.
    Raises `ValueError` if it cannot be found, or if the paged cache does not support its attention.
    """
    keep_freed_memory()
    with _found(str(name_or_path or EMBEDDED_MODEL)) as name:
        loaded = _load_weights(name, dtype)
        tokenizer = AutoTokenizer.from_pretrained(name)
    warn_of_settings(loaded.model.generation_config)
    use_one_thread_if_small(loaded.model)  # before packing: packed weights are no parameters, and not counted
    if prepack_weights:
        pack_linear_layers(loaded.model)
    return loaded, ModelTokenizer(tokenizer, loaded.eos_token_ids)


def load_draft_model(config: EngineConfig) -> LoadedModel:
    """Load the model that proposes drafts; it reads the target's tokens.

    Raises `ValueError` as `load_model` does, and for a model with sliding windows.
    """
    assert config.speculative_config is not None
    with _found(config.speculative_config.model or str(EMBEDDED_DRAFT_MODEL)) as name:
        loaded = _load_weights(name, config.dtype)
    if loaded.groups.has_windows:
        raise ValueError(f"the draft model must attend to all tokens, got windows of {loaded.groups.windows[-1]}")
    return loaded


def use_one_thread_if_small(model: Any) -> None:
    """Run a small model on one thread, unless OMP_NUM_THREADS is set.

    Its matrices are too small to split: on a busy machine, threads that waited for each other made it 100 times slower.
    """
    num_parameters = sum(weight.numel() for weight in model.parameters())
    if num_parameters < SMALL_MODEL_PARAMETERS and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


@contextmanager
def _found(name: str) -> Iterator[str]:
    if Path(name).is_relative_to(EMBEDDED_MODEL):
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield name
    except OSError as error:
        raise ValueError(
            f"no model at {name!r}: it is not a local directory with config.json and weights, and the hub returned "
            f"none. Without a network, pass the path of a `save_pretrained` directory, download the model once "
            f"while online (`hf download {name}`), or leave the name out to use the embedded model."
        ) from error
    finally:
        logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _load_weights(name: str, dtype: str) -> LoadedModel:
    check_config(AutoConfig.from_pretrained(name))
    model: Any = AutoModelForCausalLM.from_pretrained(name, dtype=getattr(torch, dtype))
    return describe_model(model.to(pick_device()).eval())


def describe_model(model: Any) -> LoadedModel:
    """Return a model with the sizes that the KV cache needs. Raises `ValueError` if it cannot run on the cache.

    The model computes a few tokens, because a config does not show how the attention behaves.
    """
    config = model.config
    require_replaceable_attention(model)
    check_config(config)
    longest, _ = longest_exact_text(config)
    attention = check_attention_contract(model, longest)
    eos = model.generation_config.eos_token_id if model.generation_config is not None else config.eos_token_id
    return LoadedModel(
        model=model,
        digest=digest_of(model),
        eos_token_ids=frozenset(eos if isinstance(eos, list) else [] if eos is None else [eos]),
        max_model_len=longest,
        num_layers=len(attention.layers),
        num_kv_heads=attention.kv_shapes[0][0],
        head_dim=attention.kv_shapes[0][1],
        vocab_size=config.vocab_size,
        groups=layer_groups(config, attention.windows, longest),
        repetition_penalty=own_repetition_penalty(model.generation_config),
    )


def digest_of(model: Any) -> str:
    """Return a digest of the first weights of every layer: another model, fine-tuning or dtype has another one."""
    digest = sha256()
    for name, weight in model.named_parameters():
        first = weight.detach().flatten()[:NUM_COMPARED_WEIGHTS].float().cpu()
        digest.update(f"{name} {list(weight.shape)} {weight.dtype}".encode() + first.numpy().tobytes())
    return digest.hexdigest()[:16]


def layer_groups(config: Any, windows: list[int | None], longest: int) -> LayerGroups:
    """Return the groups of layers that were called with these windows. Raises `ValueError` if they do not fit config.

    A window that is as long as the `longest` text is none.
    """
    types = getattr(config, "layer_types", None) or ["full_attention" if one is None else SLIDING for one in windows]
    told = [config.sliding_window if one == SLIDING else None for one in types]
    if told != windows or len(set(windows) - {None}) > 1:
        raise ValueError(
            f"{config.model_type} calls the attention of its layers with the windows {windows}, and its config has "
            f"{told}; the cache supports one length of window, the same in both"
        )
    return LayerGroups(tuple(None if one is None or one >= longest else one for one in windows))
