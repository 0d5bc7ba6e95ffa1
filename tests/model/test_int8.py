"""Weights in int8: exact sums on every processor, the same tokens in every batch, and clear refusals."""

import platform
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm.assembly.parts import runner_steps_on
from mini_vllm.runner import int8_linear, loading, panel_product
from mini_vllm.runner.c_library import torch_threads
from mini_vllm.runner.compiled_llama import CompiledLlama, packed_model
from mini_vllm.runner.int8_linear import Int8Linear
from mini_vllm.runner.loading import describe_model
from mini_vllm.runner.opening import OpenedModel
from mini_vllm.runner.panel_product import PanelProduct, layer_functions
from tests.compiler import needs_compiler
from tests.model.shapes import SERVED, random_model
from tests.model.test_llama import BLOCK_SIZE, loaded_family, logits_of, step

STEPS = runner_steps_on("solution", "cpu")
needs_team = pytest.mark.skipif(not torch_threads(), reason="torch computes on threads of another kind")
INT8 = EngineConfig(quantization="int8", num_gpu_blocks=200)
QUESTIONS = ["What is the capital of Norway?", "Count from 3 to 9.", "Tell me a story about Mina and a kite."]


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "pick_device", lambda: torch.device("cpu"))


def whole_numbers(*size: int) -> torch.Tensor:
    """Return numbers that rounding to int8 does not change: each row has a 127. Row 0 contains only 127s."""
    numbers = torch.randint(-127, 128, size).float()
    numbers[:, 5] = numbers[0] = 127
    return numbers


@needs_compiler
@pytest.mark.parametrize(
    ("dtype", "without"),
    [
        (torch.float32, ""),
        (torch.bfloat16, "-mno-avx512vnni"),
        (torch.float32, "-mno-avx512f"),
        (torch.float32, "-mno-avx"),
    ],
)
def test_products_are_exact_on_every_processor(
    dtype: torch.dtype, without: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiles of 8, 2 and 1 rows, and leftover columns. 16-bit sums would saturate in row 0."""
    more = (without,) if without and platform.machine() in ("x86_64", "AMD64") else ()
    monkeypatch.setattr(panel_product, "layer_functions", partial(layer_functions, more=more))
    layer = torch.nn.Linear(132, 45, dtype=dtype)
    weights, inputs = whole_numbers(45, 132), whole_numbers(11, 132)
    layer.weight.data, layer.bias.data = (weights / 2).to(dtype), torch.arange(45).to(dtype)
    inputs[1] = 0
    found = PanelProduct.of(layer, is_int8=True)((inputs / 4).to(dtype))
    exact = (inputs.double() @ weights.double().t() / 8 + torch.arange(45)).to(dtype)
    assert torch.equal(found, exact)


@needs_compiler
@needs_team
@pytest.mark.parametrize(("name", "dtype"), [("qwen2", torch.float32), ("qwen3", torch.bfloat16)])
def test_logits_are_near_and_rows_the_same_in_every_batch(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = packed_model(loaded_family(name, dtype), STEPS, 31, BLOCK_SIZE)
    model = packed_model(loaded_family(name, dtype), STEPS, 31, BLOCK_SIZE, is_int8=True)
    assert isinstance(model, CompiledLlama)
    exact, found = (torch.cat(logits_of(one)).float() for one in (plain, model))
    assert (found - exact).norm() < 0.1 * exact.norm()
    before, alone = torch.get_num_threads(), model.forward(step([5], [5]))
    monkeypatch.setattr(panel_product, "MIN_SHARED_WORK", 0)
    torch.set_num_threads(2)
    together = model.forward(step([5, 9, 8], [5, 9, 8]))
    torch.set_num_threads(before)
    assert torch.equal(together[0], alone[0])
    loaded = loaded_family(name, dtype)
    loaded.model.model.layers[1].self_attn.v_proj.weight.data.fill_(float("nan"))
    assert packed_model(loaded, STEPS, 31, BLOCK_SIZE, is_int8=True).forward(step([9, 1], [9, 5])).isnan().all()


@needs_compiler
@pytest.mark.parametrize("name", ["gpt_neox", "phi3", "hunyuan_v1_moe"])
def test_models_of_other_families_have_int8_layers(name: str) -> None:
    torch.manual_seed(5)
    plain = random_model(SERVED[name])
    exact = logits_of(packed_model(describe_model(deepcopy(plain)), STEPS, 31, BLOCK_SIZE))
    model = packed_model(describe_model(plain), STEPS, 31, BLOCK_SIZE, is_int8=True)
    layers = [one for one in model.model.modules() if isinstance(one, Int8Linear)]
    assert layers
    plain_layers = [one for one in model.model.modules() if type(one) is torch.nn.Linear and one.in_features % 4 == 0]
    assert plain_layers == [model.model.get_output_embeddings()]
    assert {layer.product.weight.dtype for layer in layers} == {torch.int8}
    assert layers[0].weight.shape == (layers[0].out_features, layers[0].in_features)
    found = torch.cat(logits_of(model))
    assert (found - torch.cat(exact)).norm() < 0.1 * torch.cat(exact).norm()


@needs_compiler
def test_batches_chunks_and_preemption_never_change_the_tokens() -> None:
    def texts(config: EngineConfig, *, together: bool) -> tuple[list[list[int]], int]:
        llm = LLM(config=config, lineup=parse_lineup("solution"), quantization="int8")
        chats = [[{"role": "user", "content": question}] for question in QUESTIONS * 2]
        params = SamplingParams(max_tokens=24)
        outputs = llm.chat(chats, params) if together else [llm.chat(chat, params)[0] for chat in chats]
        return [one.outputs[0].token_ids for one in outputs], sum(one.metrics.num_preemptions for one in outputs)

    expected, _ = texts(EngineConfig(num_gpu_blocks=64), together=False)
    small = EngineConfig(num_gpu_blocks=30, block_size=4, max_num_batched_tokens=11, max_model_len=100)
    found, num_preemptions = texts(small, together=True)
    assert found == expected
    assert num_preemptions > 0


@needs_compiler
@needs_team
def test_weights_take_a_quarter_and_blocks_on_disk_are_not_shared(tmp_path: Path) -> None:
    opened = [OpenedModel(None, config, STEPS) for config in (EngineConfig(num_gpu_blocks=9), INT8)]
    models: list[Any] = [one.with_cache(9, 16) for one in opened]
    plain, small = (
        sum(product.weight.nbytes for layer in model.layers for product in layer.products) for model in models
    )
    assert 0.25 < small / plain < 0.26
    for one in opened:
        one.disk_store(str(tmp_path), 1 << 20, 16)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"quantization": "int4"}, "quantization must be 'int8' or None, got 'int4'"),
        ({"quantization": "int8", "prepack_weights": False}, "needs prepack_weights=True"),
    ],
)
def test_a_config_that_cannot_be_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        EngineConfig(**settings)


def test_machines_and_lineups_that_cannot_compute_int8_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"needs phase 6 \(GPU runner\)"):
        LLM(config=INT8, lineup=parse_lineup("solution:1-5"))
    with pytest.raises(ValueError, match="needs a CPU, but the model is on cuda"):
        int8_linear.require_int8(torch.device("cuda"))
    monkeypatch.setattr(int8_linear, "can_compile", lambda: False)
    with pytest.raises(ValueError, match="needs a C compiler"):
        LLM(config=INT8, lineup=parse_lineup("solution"))
