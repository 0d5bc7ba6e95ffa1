"""Split the weights: which rank has which rows and columns.

After Shoeybi et al., *Megatron-LM*, 2019. The first product of a pair (q, k and v; gate and up) gives each rank
some of its columns: whole heads, whole neurons. The second (o; down) takes just those as its input, so each rank
has one summand of the result. One sum over all ranks completes the pair: two sums per layer.
"""

from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatch
from typing import Any

import torch
from torch import Tensor, nn

from mini_vllm.runner.contract import TOLERANCE
from mini_vllm.runner.loading import LoadedModel

AllReduce = Callable[[Tensor], Tensor]
TEXT = (1, 2, 3, 5, 8, 13, 21)


class RowParallelLinear(nn.Module):
    """A rank's rows of a product: its summand, added to those of the other ranks. The bias is added once."""

    def __init__(self, linear: nn.Linear, bias: Tensor | None, all_reduce: AllReduce) -> None:
        super().__init__()
        self.linear, self.bias, self.all_reduce = linear, bias, all_reduce

    def forward(self, inputs: Tensor) -> Tensor:
        total = self.all_reduce(self.linear(inputs))
        return total if self.bias is None else total + self.bias


def require_even_split(config: Any, size: int) -> None:
    """Raise `ValueError` if `size` ranks cannot have equal shares of a model with this transformers config."""
    heads = getattr(config, "num_attention_heads", 0)
    counts = {
        "num_attention_heads": heads,
        "num_key_value_heads": getattr(config, "num_key_value_heads", None) or heads,
        "intermediate_size": getattr(config, "intermediate_size", None) or size,
    }
    if any(count % size for count in counts.values()):
        have = ", ".join(f"{name} {count}" for name, count in counts.items())
        fitting = [str(n) for n in range(1, heads + 1) if not any(count % n for count in counts.values())]
        raise ValueError(
            f"tensor_parallel_size {size} does not divide all of {have} of {config.model_type}; "
            f"possible are {', '.join(fitting)}"
        )
    styles = plan_of(config)
    odd = sorted({style for style in styles.values() if not style.startswith(("colwise", "rowwise", "replicated"))})
    odd += sorted(style for style in set(styles.values()) if style.startswith(("colwise_", "rowwise_")))
    if not styles or odd:
        why = f"needs {', '.join(odd)}" if odd else "has no plan for it in transformers"
        raise ValueError(f"tensor_parallel_size {size}: {config.model_type} cannot be split by heads alone; it {why}")


def plan_of(config: Any) -> dict[str, str]:
    """Return how transformers splits each linear layer (`colwise`, `rowwise`, ...), by name pattern."""
    return dict(getattr(config, "base_model_tp_plan", None) or {})


@torch.no_grad()
def split_model(loaded: LoadedModel, rank: int, size: int, all_reduce: AllReduce) -> LoadedModel:
    """Cut a model down to the share of one rank, in place; return it with its number of K/V heads.

    Embeddings, norms and the output layer stay whole on every rank. All ranks must call this together: they
    compute a short text, and `ValueError` is raised if the logits are not those of the whole model.
    """
    require_even_split(loaded.model.config, size)
    whole = _logits(loaded)
    plan = plan_of(loaded.model.config)
    for name, module in list(loaded.model.base_model.named_modules()):
        style = next((style for pattern, style in plan.items() if fnmatch(name, pattern)), None)
        if style == "colwise":
            _replace(loaded.model.base_model, name, _columns(module, rank, size))
        elif style == "rowwise":
            _replace(
                loaded.model.base_model, name, RowParallelLinear(_rows(module, rank, size), module.bias, all_reduce)
            )
    worst = float((_logits(loaded) - whole).abs().max() / whole.abs().max())
    if not worst <= TOLERANCE[whole.dtype]:
        raise ValueError(f"{loaded.model.config.model_type} computes other logits when it is split ({worst:.1%} off)")
    return replace(loaded, num_kv_heads=loaded.num_kv_heads // size)


def _columns(linear: nn.Linear, rank: int, size: int) -> nn.Linear:
    bias = None if linear.bias is None else linear.bias.chunk(size)[rank]
    return _linear(linear.weight.chunk(size, dim=0)[rank], bias)


def _rows(linear: nn.Linear, rank: int, size: int) -> nn.Linear:
    return _linear(linear.weight.chunk(size, dim=1)[rank], None)


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    linear.weight = nn.Parameter(weight.clone(), requires_grad=False)
    if bias is not None:
        linear.bias = nn.Parameter(bias.clone(), requires_grad=False)
    return linear


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, module)


def _logits(loaded: LoadedModel) -> Tensor:
    logits: Tensor = loaded.model(input_ids=torch.tensor([TEXT], device=loaded.device), use_cache=False).logits[0]
    return logits
