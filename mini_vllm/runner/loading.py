"""Loads a model and its tokenizer from a directory or the hub; rejects models that the paged cache cannot serve."""

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from mini_vllm.config import EngineConfig
from mini_vllm.environment import NUM_THREADS
from mini_vllm.freed_memory import keep_freed_memory
from mini_vllm.runner.contract import check_attention_contract, require_replaceable_attention
from mini_vllm.runner.end_tokens import EndTokens
from mini_vllm.runner.find_folder import find_folder
from mini_vllm.runner.generation_settings import own_repetition_penalty, warn_of_settings
from mini_vllm.runner.layer_groups import KVCacheGroups
from mini_vllm.runner.model_files import one_line
from mini_vllm.runner.model_folder import ModelFolder, open_folder, open_tokenizer
from mini_vllm.runner.model_limits import SLIDING, check_config, longest_exact_text
from mini_vllm.runner.model_tokenizer import ModelTokenizer
from mini_vllm.runner.packed_linear import pack_linear_layers
from mini_vllm.runner.threads.step_threads import all_threads, use_one_thread

EMBEDDED_MODEL = Path(__file__).parents[1] / "embedded_model"
EMBEDDED_DRAFT_MODEL = EMBEDDED_MODEL / "draft"
SMALL_MODEL_PARAMETERS = 50_000_000
NUM_COMPARED_WEIGHTS = 64


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A transformers model, and the sizes that determine its KV cache. `digest` identifies the model's weights.

    `repetition_penalty` is the default for requests.
    """

    model: Any
    digest: str
    eos_token_ids: frozenset[int]
    max_model_len: int
    num_layers: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    groups: KVCacheGroups
    repetition_penalty: float = 1.0

    @property
    def device(self) -> torch.device:
        return torch.device(self.model.device)

    @property
    def dtype(self) -> torch.dtype:
        return torch.get_default_dtype() if self.model.dtype is None else self.model.dtype


def pick_device() -> torch.device:
    """Return the GPU if torch finds one, otherwise the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def load_model(
    name_or_path: str | None = None, dtype: str = "float32", *, prepack_weights: bool = False
) -> tuple[LoadedModel, ModelTokenizer]:
    """Load a decoder-only model and its tokenizer; None means the embedded model.

    `prepack_weights` makes the model faster on a CPU, but it can then no longer be saved or trained. Raises
    `ValueError` if the model cannot be found, or if the paged cache does not support its attention.
    """
    keep_freed_memory()
    use_one_thread()
    folder, tokenizer, ends = open_model(name_or_path)
    loaded = replace(_load_weights(folder, dtype), eos_token_ids=ends.token_ids)
    warn_of_settings(folder.generation_config)
    set_threads_for(loaded.model)  # must come before packing, because packed weights do not count as parameters
    if prepack_weights:
        pack_linear_layers(loaded.model)
    return loaded, ModelTokenizer(tokenizer, ends.token_ids)


def open_model(name_or_path: str | None, *, download: bool = True) -> tuple[ModelFolder, Any, EndTokens]:
    """Open a model's folder, tokenizer and end tokens without loading its weights. Raises `ValueError` like
    `load_model`."""
    folder = open_folder(find_folder(str(name_or_path or EMBEDDED_MODEL), download=download))
    tokenizer = open_tokenizer(folder)
    return folder, tokenizer, folder.end_tokens(tokenizer)


def load_draft_model(config: EngineConfig) -> LoadedModel:
    """Load the draft model, which uses the target's tokenizer.

    Raises `ValueError` like `load_model`, and for a model with sliding windows.
    """
    assert config.speculative_config is not None
    path = find_folder(config.speculative_config.model or str(EMBEDDED_DRAFT_MODEL))
    loaded = _load_weights(open_folder(path), config.dtype)
    if loaded.groups.has_windows:
        raise ValueError(
            f"the draft model must attend to all tokens, but it has sliding windows of {loaded.groups.windows[-1]}"
        )
    return loaded


def set_threads_for(model: Any) -> None:
    """Run a small model on one thread and a larger one on all threads, unless OMP_NUM_THREADS is set.

    The matrices of a small model are too small to split. `StepThreads` chooses the number of threads again before each
    step.
    """
    if not NUM_THREADS.get():
        torch.set_num_threads(1 if is_small(model) else all_threads())


def is_small(model: Any) -> bool:
    """Return whether a model with plain weights has fewer than `SMALL_MODEL_PARAMETERS` parameters."""
    num_parameters: int = sum(weight.numel() for weight in model.parameters())
    return num_parameters < SMALL_MODEL_PARAMETERS


def _load_weights(folder: ModelFolder, dtype: str) -> LoadedModel:
    folder.skeleton(dtype)  # if the model cannot be loaded, raises an error before any weight is read
    model = folder.load(dtype, bar=not folder.path.is_relative_to(EMBEDDED_MODEL))
    return described(folder, model.to(pick_device()).eval())


def inspect(folder: ModelFolder) -> tuple[Any, LoadedModel | None]:
    """Return the model without parameter values, and its sizes (None if its code needs values).

    Raises `ValueError` like `load_model`.
    """
    model = folder.skeleton("bfloat16")  # for tensors without data, transformers can compute experts only in this dtype
    try:
        return model, describe_model(model)
    except ValueError as error:
        raise ValueError(f"{folder.path}: {error}") from error
    except Exception:
        return model, None


def described(folder: ModelFolder, model: Any) -> LoadedModel:
    """Call `describe_model`; turn any error into a `ValueError` that names the folder."""
    try:
        return describe_model(model)
    except Exception as error:  # a config may describe a model that cannot be computed
        raise ValueError(f"{folder.path}: {one_line(error)}") from error


def describe_model(model: Any) -> LoadedModel:
    """Return a model with the sizes that the KV cache needs. Raises `ValueError` if the cache cannot serve the model.

    The model computes a few tokens, because its config does not show how the attention behaves. Without parameter
    values (on the device `meta`), only its sizes and function calls are checked.
    """
    config = model.config
    require_replaceable_attention(model)
    check_config(config)
    longest, _ = longest_exact_text(config)
    attention = check_attention_contract(model, longest)
    eos = model.generation_config.eos_token_id if model.generation_config is not None else config.eos_token_id
    return LoadedModel(
        model=model,
        digest="" if model.device.type == "meta" else digest_of(model),
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
    """Return a digest of the first few weights of every parameter; it differs between models, fine-tunes and dtypes."""
    digest = sha256()
    for name, weight in model.named_parameters():
        first = weight.detach().flatten()[:NUM_COMPARED_WEIGHTS].float().cpu()
        digest.update(f"{name} {list(weight.shape)} {weight.dtype}".encode() + first.numpy().tobytes())
    return digest.hexdigest()[:16]


def layer_groups(config: Any, windows: list[int | None], longest: int) -> KVCacheGroups:
    """Group the layers by these observed windows. Raises `ValueError` if the windows contradict the config.

    A window at least as long as the `longest` text counts as full attention.
    """
    types = getattr(config, "layer_types", None) or ["full_attention" if one is None else SLIDING for one in windows]
    told = [config.sliding_window if one == SLIDING else None for one in types]
    if told != windows or len(set(windows) - {None}) > 1:
        raise ValueError(
            f"{config.model_type} calls its layers' attention with windows {windows}, but its config specifies "
            f"{told}; both must specify the same single window length"
        )
    return KVCacheGroups(tuple(None if one is None or one >= longest else one for one in windows))
