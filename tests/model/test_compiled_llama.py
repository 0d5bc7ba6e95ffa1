"""Layers in C match the modules, and each row is the same in every batch, with any number of threads."""

from copy import deepcopy

import pytest
import torch

from mini_vllm import LLM, EngineConfig
from mini_vllm.assembly.parts import runner_steps_on
from mini_vllm.runner import loading, panel_product
from mini_vllm.runner.c_library import torch_threads
from mini_vllm.runner.compiled_llama import CompiledLlama, can_be_compiled, packed_model
from mini_vllm.runner.llama import LlamaModel
from mini_vllm.runner.loading import LoadedModel
from mini_vllm.runner.paged_model import PagedModel
from tests.compiler import needs_compiler
from tests.model.shapes import SERVED, random_model
from tests.model.test_llama import BLOCK_SIZE, FAMILY, STEPS, loaded_family, logits_of, step

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(not torch_threads(), reason="torch computes on threads of another kind"),
]


def compiled(loaded: LoadedModel) -> CompiledLlama:
    model = packed_model(loaded, STEPS, 31, BLOCK_SIZE)
    assert isinstance(model, CompiledLlama)
    return model


def modules(loaded: LoadedModel) -> PagedModel:
    return PagedModel(loaded, STEPS.write_kv, STEPS.paged_attention, 31, BLOCK_SIZE)


@pytest.mark.parametrize("name", sorted(FAMILY.keys() - {"llama, biases"}))
def test_logits_equal_those_of_the_modules(name: str) -> None:
    expected, own = logits_of(modules(loaded_family(name))), compiled(loaded_family(name))
    for found, right in zip(logits_of(own), expected, strict=True):
        torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-4)


def test_bfloat16_is_as_near_to_float32_as_the_modules_are() -> None:
    exact = logits_of(modules(loaded_family("qwen3")))
    theirs = logits_of(modules(loaded_family("qwen3", torch.bfloat16)))
    ours = logits_of(compiled(loaded_family("qwen3", torch.bfloat16)))
    errors = [
        sum(float((found - right).square().sum()) for found, right in zip(logits, exact, strict=True)) ** 0.5
        for logits in (ours, theirs)
    ]
    assert errors[0] < 1.5 * errors[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_token_gets_the_same_numbers_in_every_batch(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five rows are split into tiles of 4 and 1. And 22 rows are split into tiles of 8, 8, 4 and 2, on two threads."""
    loaded, steps = loaded_family("qwen2", dtype), runner_steps_on("solution", "cpu")
    model, before = packed_model(loaded, steps, 31, BLOCK_SIZE), torch.get_num_threads()
    alone = model.forward(step([5], [5]))
    monkeypatch.setattr(panel_product, "MIN_SHARED_WORK", 0)
    torch.set_num_threads(2)
    together = model.forward(step([5, 9, 8], [5, 9, 8]))
    torch.set_num_threads(before)
    assert torch.equal(together[0], alone[0])
    assert not torch.equal(together[1], alone[0])


def test_models_that_c_does_not_compute_are_packed_as_before() -> None:
    odd = deepcopy(FAMILY["llama"])
    odd.intermediate_size = 77
    for model in (random_model(odd), random_model(SERVED["gpt_neox"]), loaded_family("llama, biases").model):
        assert not can_be_compiled(model)
    assert type(packed_model(loaded_family("llama, biases"), STEPS, 31, BLOCK_SIZE)) is LlamaModel
    assert not can_be_compiled(loaded_family("llama", torch.float16).model)


def test_no_weight_is_held_twice() -> None:
    own = compiled(loaded_family("llama"))
    kept = {name: weight.numel() for name, weight in own.model.named_parameters() if "proj" in name or "embed" in name}
    assert kept.pop("model.embed_tokens.weight") == 97 * 48, "a table to look tokens up in, tied to the logits"
    assert len(kept) == 3 * 7
    assert set(kept.values()) == {0}


def test_the_engine_computes_in_c_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "pick_device", lambda: torch.device("cpu"))  # results differ on a GPU
    kinds = [
        type(LLM(config=EngineConfig(num_gpu_blocks=8, prepack_weights=packed)).engine.runner.model)  # type: ignore[attr-defined]
        for packed in (True, False)
    ]
    assert kinds == [CompiledLlama, LlamaModel]


@pytest.mark.parametrize("broken", ["q_proj", "k_proj", "v_proj"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nan_weights_show_in_the_logits(dtype: torch.dtype, broken: str) -> None:
    """NaN weights show in chunks and decodes: the engine reports such logits instead of sampling from them."""
    loaded, steps = loaded_family("llama", dtype), runner_steps_on("solution", "cpu")
    getattr(loaded.model.model.layers[1].self_attn, broken).weight.data.fill_(float("nan"))
    model = packed_model(loaded, steps, 31, BLOCK_SIZE)
    assert isinstance(model, CompiledLlama)
    assert model.forward(step([9, 1], [9, 5])).isnan().all()
