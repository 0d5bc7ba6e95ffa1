"""The facts that `mini-vllm info --model` prints about a folder, and how transformers determines them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mini_vllm.runner.end_tokens import EndTokens
from mini_vllm.runner.model_files import StoredTensor


@dataclass(frozen=True, slots=True)
class Layers:
    """The sizes of a model's layers. `window` is the length of its sliding windows, if any."""

    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    window: int | None = None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The facts about a folder that the engine can serve. `layers` is None if the model's code cannot run without
    weights."""

    path: Path
    type_and_class: str
    is_own_code: bool
    layers: Layers | None
    vocab_size: int
    num_parameters: int
    longest_text: tuple[int, str]
    num_tokenizer_tokens: int
    end_tokens: EndTokens
    end_names: list[str]
    has_chat_template: bool
    stored: dict[str, StoredTensor]
    ignored_tensors: list[str]
    generation_config: Any


def ask_transformers(name: str) -> ModelFacts:
    """Return the facts that loading would determine, but without reading the weights. Raises the same `ValueError` as
    loading the model."""
    from mini_vllm.runner.filling import ignored_tensors
    from mini_vllm.runner.llama import is_llama
    from mini_vllm.runner.loading import inspect, open_model
    from mini_vllm.runner.model_limits import longest_exact_text

    folder, tokenizer, ends = open_model(name, download=False)
    model, loaded = inspect(folder)
    layers = None
    if loaded is not None:
        windows = sorted(set(loaded.groups.windows) - {None}, key=str)
        heads = model.config.num_attention_heads
        layers = Layers(loaded.num_layers, heads, loaded.num_kv_heads, loaded.head_dim, next(iter(windows), None))
    return ModelFacts(
        path=folder.path,
        type_and_class=f"{folder.config.model_type} ({type(model).__name__})",
        is_own_code=loaded is not None and is_llama(model),
        layers=layers,
        vocab_size=folder.config.vocab_size,
        num_parameters=sum(weight.numel() for weight in model.parameters()),
        longest_text=longest_exact_text(folder.config),
        num_tokenizer_tokens=len(tokenizer),
        end_tokens=ends,
        end_names=[str(tokenizer.convert_ids_to_tokens(token_id)) for token_id in sorted(ends.token_ids)],
        has_chat_template=bool(tokenizer.chat_template),
        stored=folder.stored,
        ignored_tensors=ignored_tensors(model, folder.stored),
        generation_config=folder.generation_config,
    )
