"""LoRA adapters for the Llama pass: reads PEFT's files and adds a product to each linear layer.

In vLLM, `lora/models.py` reads the files, and `lora/layers/` wraps each kind of linear layer. vLLM swaps adapters in
and out of `max_loras` GPU slots; in this engine all adapters stay loaded, and only the scheduler uses `max_loras`.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import accumulate
from math import isfinite, sqrt
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.llama import LlamaModel, Product
from mini_vllm.runner.model_files import require_content, some
from mini_vllm.runner.paged_model import ForwardPass

Bgmv = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], None]
KEY = re.compile(r"base_model\.model\.(model\.layers\.(\d+)\.(?:self_attn|mlp)\.(\w+_proj))\.lora_([AB])\.weight")
# These settings describe the training, or repeat what the files already say. All other settings, including future ones,
# must be off: they may change the product or other layers.
HARMLESS = frozenset(
    "r lora_alpha rank_pattern alpha_pattern use_rslora target_modules exclude_modules layers_to_transform "
    "layers_pattern fan_in_fan_out lora_dropout "
    "task_type auto_mapping peft_version base_model_name_or_path revision inference_mode megatron_core loftq_config "
    "eva_config corda_config lora_ga_config qalora_group_size runtime_config ensure_weight_tying".split()
)
OFF: tuple[Any, ...] = (False, None, [], {})
SUPPORTED: Mapping[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    # other values change the base model's weights
    "init_lora_weights": (True, False, None, "gaussian", "orthogonal", "eva"),
}


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter's matrices A [r, in] and B [out, r], keyed by layer and module, with rank and scaling factor.

    `everywhere` holds the modules that the adapter must change in every layer.
    """

    name: str
    weights: dict[tuple[int, str, str], Tensor]
    ranks: dict[tuple[int, str], int]
    scales: dict[tuple[int, str], float]
    everywhere: frozenset[str] = frozenset()


def load_adapter(name: str, path: str | Path) -> Adapter:
    """Read a directory saved by PEFT. Raises `ValueError` if the adapter is invalid or uses an unsupported option."""
    folder = Path(path)
    try:
        for file in folder.glob("adapter_*"):
            require_content(file)
        config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
        with safe_open(folder / "adapter_model.safetensors", framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (no mapping)
        rank, alpha = int(config["r"]), float(config["lora_alpha"])
    except (OSError, ValueError, TypeError, KeyError, SafetensorError) as error:
        raise ValueError(
            f"adapter {name!r}: {folder} must contain adapter_config.json, with r and lora_alpha, and "
            f"adapter_model.safetensors: {error!r}"
        ) from error
    if rank < 1 or not isfinite(alpha):
        raise ValueError(f"adapter {name!r}: r must be at least 1 and lora_alpha a number, got {rank} and {alpha}")
    for setting, value in config.items():
        if setting not in HARMLESS and value not in (legal := SUPPORTED.get(setting, OFF)):
            wanted = "off" if legal is OFF else repr(legal[0])
            raise ValueError(f"adapter {name!r}: {setting} must be {wanted}, got {value!r}")
    if broken := [key for key, tensor in tensors.items() if not tensor.isfinite().all()]:
        raise ValueError(f"adapter {name!r}: {folder} contains NaN or infinity in {some(broken)}")
    places = {key: KEY.fullmatch(key) for key in tensors}
    if unknown := [key for key, place in places.items() if place is None]:
        raise ValueError(
            f"adapter {name!r} changes {unknown[0]}, but it may contain only lora_A.weight and lora_B.weight of linear "
            "layers in attention and MLP, with names such as "
            "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
        )
    targets = config.get("target_modules")
    is_whole = isinstance(targets, list) and config.get("layers_to_transform") is config.get("exclude_modules") is None
    adapter = Adapter(name, {}, {}, {}, frozenset(targets or ()) if is_whole else frozenset())
    for key, place in places.items():
        if place is not None:
            path, layer, module, side = place[1], int(place[2]), place[3], place[4]
            adapter.weights[layer, module, side] = tensors[key]
            try:
                found = rank_and_scale(config, path, rank, alpha)
            except (ValueError, TypeError, AttributeError, re.error) as error:
                raise ValueError(f"adapter {name!r}: rank_pattern or alpha_pattern is invalid: {error}") from error
            adapter.ranks[layer, module], adapter.scales[layer, module] = found
    return adapter


def rank_and_scale(config: Mapping[str, Any], path: str, rank: int, alpha: float) -> tuple[int, float]:
    """Return a module's rank and scaling factor. Patterns that match its path override `rank` and `alpha`.

    peft: `get_pattern_key` and `update_layer`. Raises `ValueError` for values out of range, and `re.error` for invalid
    patterns.
    """

    def first_match(setting: str, default: Any) -> Any:
        patterns = (config.get(setting) or {}).items()
        return next((value for key, value in patterns if re.match(rf"(.*\.)?({key})$", path)), default)

    rank, alpha = first_match("rank_pattern", rank), first_match("alpha_pattern", alpha)
    if not isinstance(rank, int) or rank < 1 or not isfinite(alpha):
        raise ValueError(
            f"{path} must have a rank of at least 1 and a finite number as alpha, got {rank!r} and {alpha!r}"
        )
    return rank, alpha / (sqrt(rank) if config.get("use_rslora") else rank)


def digest_of(adapters: Sequence[Adapter]) -> bytes:
    """Return a digest of the adapters' names, factors and weights, or b"" if there are no adapters."""
    digest = sha256()
    for adapter in adapters:
        digest.update(repr((adapter.name, sorted(adapter.scales.items()))).encode())
        for place, weight in sorted(adapter.weights.items()):
            digest.update(repr(place).encode() + weight.float().numpy().tobytes())
    return digest.digest() if adapters else b""


class StepAdapters:
    """Each row's adapter in the current step: `indices` [T] int64 (-1 means none), or None if no row has one."""

    def __init__(self, names: Sequence[str], device: torch.device) -> None:
        self.index_of: dict[str | None, int] = {name: index for index, name in enumerate(names)}
        self.device = device
        self.indices: Tensor | None = None

    def start_step(self, batch: Sequence[ScheduledRequest]) -> None:
        """Set the adapter index of each row in a step; a request has one row per scheduled token."""
        found = [self.index_of.get(one.request.adapter_id, -1) for one in batch]
        counts = torch.tensor([one.num_scheduled_tokens for one in batch])
        indices = torch.tensor(found).repeat_interleave(counts)
        self.indices = indices.to(self.device) if max(found) >= 0 else None


def with_adapters(model: ForwardPass, adapters: Sequence[Adapter], bgmv: Bgmv) -> StepAdapters:
    """Add adapters to a model's layers, in place. Raises `ValueError` if the adapters do not fit the model."""
    if not isinstance(model, LlamaModel):
        raise ValueError("adapters need a model of the Llama family: Llama, Mistral, Qwen2 or Qwen3")
    step = StepAdapters([adapter.name for adapter in adapters], model.device)
    config, dim = model.model.config, model.head_dim
    hidden, inner, heads = config.hidden_size, config.intermediate_size, model.num_heads * dim
    keys = model.num_kv_heads * dim
    # for each product: the number of inputs, and the number of outputs of each module in order
    joined: dict[str, tuple[int, dict[str, int]]] = {
        "qkv": (hidden, {"q_proj": heads, "k_proj": keys, "v_proj": keys}),
        "output": (heads, {"o_proj": hidden}),
        "gate_up": (hidden, {"gate_proj": inner, "up_proj": inner}),
        "down": (inner, {"down_proj": hidden}),
    }
    require_fit(adapters, len(model.layers), joined.values())
    for number, layer in enumerate(model.layers):
        beside: dict[str, Any] = {}
        for name, (num_inputs, outputs) in joined.items():
            weights = stacked(adapters, number, num_inputs, outputs)
            if any(weight.any() for weight in weights):
                a, b = (weight.to(model.device, model.embedding.dtype) for weight in weights)
                beside[name] = with_lora(getattr(layer, name), a, b, step, bgmv)
        model.layers[number] = replace(layer, **beside)
    return step


def stacked(
    adapters: Sequence[Adapter], layer: int, num_inputs: int, outputs: Mapping[str, int]
) -> tuple[Tensor, Tensor]:
    """Stack all adapters' A [N, modules * r, in] and B [N, out, modules * r] for one product.

    Each module has separate rows of A, which B maps only to that module's outputs. r is the largest rank; smaller ranks
    are padded with 0. B already includes the scaling factor.
    """
    rank = max(rank for adapter in adapters for rank in adapter.ranks.values())
    lora_a = torch.zeros(len(adapters), len(outputs) * rank, num_inputs)
    lora_b = torch.zeros(len(adapters), sum(outputs.values()), len(outputs) * rank)
    for index, adapter in enumerate(adapters):
        for place, (module, end) in enumerate(zip(outputs, accumulate(outputs.values()), strict=True)):
            if (layer, module, "A") in adapter.weights:
                a, b = (adapter.weights[layer, module, side].float() for side in "AB")
                ranks = slice(place * rank, place * rank + len(a))
                lora_a[index, ranks] = a
                lora_b[index, end - outputs[module] : end, ranks] = b * adapter.scales[layer, module]
    return lora_a, lora_b


def with_lora(product: Product, lora_a: Tensor, lora_b: Tensor, step: StepAdapters, bgmv: Bgmv) -> Product:
    """Return a matrix product that also applies each row's adapter."""

    def both(inputs: Tensor) -> Tensor:
        output = product(inputs)
        if step.indices is not None:
            bgmv(output, inputs, lora_a, lora_b, step.indices)
        return output

    return both


def require_fit(adapters: Sequence[Adapter], num_layers: int, products: Any) -> None:
    """Raise `ValueError` unless every A [r, in] has a B [out, r] and both fit the model's layer."""
    sizes = {module: (num_inputs, out) for num_inputs, outputs in products for module, out in outputs.items()}
    for adapter in adapters:
        if not adapter.weights:
            raise ValueError(f"adapter {adapter.name!r} has no weights")
        wanted = [(layer, module) for layer in range(num_layers) for module in sizes if module in adapter.everywhere]
        present = {place[:2] for place in adapter.weights}
        if absent := [f"layer {layer} {module}" for layer, module in wanted if (layer, module) not in present]:
            raise ValueError(
                f"adapter {adapter.name!r} lacks weights for modules in its target_modules: {some(absent)}"
            )
        for layer, module, _ in adapter.weights:
            a, b = (adapter.weights.get((layer, module, one)) for one in "AB")
            seen = (None if a is None else tuple(a.shape), None if b is None else tuple(b.shape))
            if module not in sizes:
                raise ValueError(f"adapter {adapter.name!r} changes {module}, but a layer has only {', '.join(sizes)}")
            rank, (num_inputs, out) = adapter.ranks[layer, module], sizes[module]
            if layer >= num_layers or seen != ((rank, num_inputs), (out, rank)):
                raise ValueError(
                    f"adapter {adapter.name!r}: lora_A and lora_B of {module} in layer {layer} have shapes {seen[0]} "
                    f"and {seen[1]}, but the model has {num_layers} layers and needs shapes [{rank}, {num_inputs}] and "
                    f"[{out}, {rank}]"
                )
