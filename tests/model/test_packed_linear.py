"""Packed linear layers compute the same as plain ones, store no weight twice, and are optional."""

import gc
import os
import subprocess
import sys
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm.core.tokenizer import Message
from mini_vllm.runner import compiled_llama, loading, packed_linear
from mini_vllm.runner.packed_linear import PackedLinear, SharedColumns, can_pack, pack_linear_layers
from tests.model.shapes import SERVED, random_model

CPU = torch.device("cpu")
needs_operators = pytest.mark.skipif(
    not can_pack(CPU, torch.float32), reason="this torch has no prepacked linear layers for this CPU"
)
QUESTIONS = ["What is the capital of Norway?", "Count from 3 to 9.", "Tell me a story about Mina and a kite."]


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU would pack nothing, and with a compiler the layers would be computed in C: use neither."""
    monkeypatch.setattr(loading, "pick_device", lambda: CPU)
    monkeypatch.setattr(compiled_llama, "can_be_compiled", lambda model, **options: False)


def answers(config: EngineConfig) -> tuple[LLM, list[list[int]]]:
    llm = LLM(config=config, lineup=parse_lineup("solution"))
    conversations: list[list[Message]] = [[{"role": "user", "content": question}] for question in QUESTIONS]
    outputs = llm.chat(conversations, SamplingParams(max_tokens=30))
    return llm, [output.outputs[0].token_ids for output in outputs]


def kinds(llm: LLM) -> set[type]:
    return {type(module) for module in llm.engine.runner.model.model.modules()}  # type: ignore[attr-defined]


@needs_operators
def test_packed_and_plain_generate_the_same_tokens() -> None:
    packed, texts = answers(EngineConfig(num_gpu_blocks=64))
    plain, expected = answers(EngineConfig(num_gpu_blocks=64, prepack_weights=False))
    assert texts == expected
    assert {PackedLinear, SharedColumns} < kinds(packed)
    assert nn.Linear not in kinds(packed)
    assert nn.Linear in kinds(plain)
    assert PackedLinear not in kinds(plain)


def test_without_the_operators_the_model_stays_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = answers(EngineConfig(num_gpu_blocks=64, prepack_weights=False))[1]
    monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace())
    llm, texts = answers(EngineConfig(num_gpu_blocks=64))
    assert texts == expected
    assert PackedLinear not in kinds(llm)


def test_a_gpu_and_other_dtypes_are_left_alone() -> None:
    assert not can_pack(torch.device("cuda"), torch.float32)
    assert not can_pack(CPU, torch.float64)


@needs_operators
@pytest.mark.parametrize("rows", [0, 1, 7, 33, 300])
@pytest.mark.parametrize("bias", [False, True])
def test_several_layers_share_one_product(rows: int, bias: bool) -> None:
    torch.manual_seed(rows)
    layers = [nn.Linear(24, size, bias=bias) for size in (40, 8, 8)]
    inputs = torch.randn(1, rows, 48)[..., ::2]
    with torch.inference_mode():
        product = PackedLinear(layers)(inputs)
        torch.testing.assert_close(product, torch.cat([layer(inputs) for layer in layers], dim=-1))


@needs_operators
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("keeps_plain", [False, True])
def test_a_packed_layer_can_be_read_as_the_plain_one(
    dtype: torch.dtype, keeps_plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_linear, "MAX_PLAIN_BYTES", 2**20 if keeps_plain else 0)
    layers = [nn.Linear(24, size, dtype=dtype) for size in (40, 8, 8)]
    shared = packed_linear.SharedProduct(PackedLinear(layers))
    packed: list[PackedLinear | SharedColumns] = [PackedLinear([layers[0]])]
    packed += [SharedColumns(shared, index) for index in range(3)]
    for layer, plain in zip(packed, [layers[0], *layers], strict=True):
        assert layer.weight.dtype is dtype
        assert torch.equal(layer.weight, plain.weight)
        assert isinstance(layer.bias, torch.Tensor)
        assert torch.equal(layer.bias, plain.bias)
        assert (layer.in_features, layer.out_features) == (plain.in_features, plain.out_features)
    assert PackedLinear([nn.Linear(4, 3, bias=False)]).bias is None


class Asks(nn.Module):
    """Three layers, called in an unusual order, only some of which read the same input."""

    device, dtype = CPU, torch.float32

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = nn.Linear(6, 4), nn.Linear(6, 2), nn.Linear(6, 2)

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        asked = [self.v_proj(first), self.v_proj(first), self.k_proj(second), self.q_proj(second), self.k_proj(first)]
        return torch.cat(asked, dim=-1)


@needs_operators
def test_shared_columns_are_always_those_of_the_input_given() -> None:
    torch.manual_seed(1)
    module, inputs = Asks(), (torch.randn(3, 6), torch.randn(3, 6))
    with torch.inference_mode():
        expected = module(*inputs)
        assert pack_linear_layers(module) == 1
        for _ in range(2):
            torch.testing.assert_close(module(*inputs), expected)


@needs_operators
def test_nothing_is_kept_between_steps_and_no_weight_twice() -> None:
    model: Any = random_model(SERVED["llama"])
    weights = {name: weakref.ref(weight) for name, weight in model.named_parameters() if "_proj" in name}
    assert len(weights) == 3 * 7
    assert pack_linear_layers(model) == 3 * 4 + 1
    gc.collect()
    assert not [name for name, weight in weights.items() if weight() is not None]
    assert model.get_input_embeddings().weight.shape == (97, 48)
    with torch.inference_mode():
        model(input_ids=torch.ones(1, 5, dtype=torch.int64))
    shared = {id(m.shared): m.shared for m in model.modules() if isinstance(m, SharedColumns)}
    assert len(shared) == 6
    assert all(product.inputs is None and not product.columns for product in shared.values())


@needs_operators
def test_layers_that_only_look_linear_are_left_alone() -> None:
    class Doubled(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(input)

    model = Asks()
    model.k_proj = Doubled(6, 2)
    assert pack_linear_layers(model) == 2
    assert type(model.k_proj) is Doubled
    assert not packed_linear._can_join([nn.Linear(6, 2), nn.Linear(4, 2)])
    assert not packed_linear._can_join([nn.Linear(6, 2), nn.Linear(6, 2, bias=False)])


MANY_SIZES = """
import psutil, torch
from mini_vllm.freed_memory import MAX_KERNELS
from mini_vllm.runner.loading import load_model
from mini_vllm.runner.packed_linear import PackedLinear

load_model()
layer, sizes = PackedLinear([torch.nn.Linear(256, 512)]), []
for rows in range(1, 8 * MAX_KERNELS + 1):
    layer(torch.zeros(rows, 256))
    if rows in (1, MAX_KERNELS, 8 * MAX_KERNELS):
        sizes.append(psutil.Process().memory_info().rss)
print(sizes[1] - sizes[0], sizes[2] - sizes[1])
"""


@needs_operators
def test_kernels_of_sizes_long_unused_are_forgotten() -> None:
    """oneDNN and torch each have a cache, so limiting only one frees no memory."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("CACHE_CAPACITY")}
    command = [sys.executable, "-c", MANY_SIZES]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    first, later = map(int, done.stdout.split())
    # Seven layers like this add up to the first one's size, but keeping them costs 14 times as much, because larger
    # ones cost more.
    assert later < 5 * first, "so many further sizes cost less than their share: the first ones are forgotten"
