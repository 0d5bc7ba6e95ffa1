"""Attention in C in the engine: which steps use it, and that it computes what torch computes."""

from pathlib import Path

import pytest
import torch

from course.labtest.phase6.one_step import expect_paged_attention
from mini_vllm import LLM, EngineConfig, SamplingParams
from mini_vllm.assembly import parts
from mini_vllm.assembly.parts import decode_attention_for, runner_steps_for, runner_steps_on
from mini_vllm.runner import compiled
from mini_vllm.runner.compiled import Sizes, can_compile, compile_attention, compiled_attention
from mini_vllm.runner.steps import FlatBatch
from tests.compiler import needs_compiler

STEPS = runner_steps_for("solution")
SOURCE = Path(parts.__file__).resolve().parents[2] / "solutions" / "phase6_decode_attention.c"


@pytest.mark.parametrize("compilers", [(), ("false",), ("true-but-not-there",)])
def test_without_a_working_compiler_attention_is_torch(
    monkeypatch: pytest.MonkeyPatch, compilers: tuple[str, ...]
) -> None:
    monkeypatch.setattr(compiled, "COMPILERS", compilers)
    can_compile.cache_clear()
    try:
        assert runner_steps_on("solution", "cpu") == STEPS
    finally:
        can_compile.cache_clear()


@needs_compiler
def test_an_unwritten_file_is_not_used() -> None:
    assert decode_attention_for("starter") is None
    assert runner_steps_on("solution", "cpu") != STEPS


@needs_compiler
def test_what_the_compiler_refuses_is_said_in_its_words() -> None:
    code = "void paged_decode_attention(void) { int x = undeclared; }\n"
    with pytest.raises(ValueError, match=r"mine\.c cannot be compiled:\n[^$]*undeclared"):
        compile_attention("mine.c", code, Sizes(1, 1, 8, 4, False))


@needs_compiler
def test_a_file_that_has_changed_is_compiled_again_for_the_next_engine(tmp_path: Path) -> None:
    """In a notebook the process lives on while its learner edits."""
    source = tmp_path / "mine.c"
    source.write_text(SOURCE.read_text())
    expect_paged_attention(compiled_attention(STEPS.paged_attention, source), [1], [5])
    source.write_text(SOURCE.read_text().replace("/ state.total[head]", "/ (2 * state.total[head])"))
    with pytest.raises(pytest.fail.Exception):
        expect_paged_attention(compiled_attention(STEPS.paged_attention, source), [1], [5])


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_only_chunks_and_other_dtypes_attend_through_torch(dtype: torch.dtype) -> None:
    seen = []

    def in_torch(
        query: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, batch: FlatBatch, scale: float
    ) -> torch.Tensor:
        seen.append(batch.query_lens)
        # Slots that no token may read are not numbers here; torch reads them and hides them.
        return STEPS.paged_attention(query, key_cache.nan_to_num(), value_cache.nan_to_num(), batch, scale)

    attention = compiled_attention(in_torch, SOURCE)
    expect_paged_attention(attention, [1, 9, 8, 30, 1], [30, 33, 8, 130, 1], group=3, dtype=dtype)
    expect_paged_attention(attention, [1, 1], [30, 33], dtype=dtype)
    only_chunks = [[9, 30]] * 2
    assert seen == ([[1, 9, 8, 30, 1]] * 2 + [[1, 1]] * 2 if dtype is torch.float16 else only_chunks)


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2])
def test_the_texts_are_those_of_torch(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Chunks, decodes and preemption in one run: 12 requests, a budget of 40 tokens, 60 blocks."""
    prompts = [[(7 * number + place) % 900 + 5 for place in range(5 + 9 * number)] for number in range(12)]

    def texts() -> list[list[int]]:
        config = EngineConfig(max_num_batched_tokens=40, max_num_seqs=8, num_gpu_blocks=60, block_size=4)
        outputs = LLM(config=config).generate(prompts, SamplingParams(max_tokens=24, ignore_eos=True))
        return [output.outputs[0].token_ids for output in outputs]

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    in_c = texts()
    monkeypatch.setattr("mini_vllm.assembly.open_runner.runner_steps_on", lambda impl, device: runner_steps_for(impl))
    assert texts() == in_c
    torch.set_num_threads(before)
