"""Phase 6's C version in the engine: which steps use it, and whether its results match torch's."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mini_vllm import LLM, EngineConfig, SamplingParams
from mini_vllm.assembly import parts
from mini_vllm.assembly.parts import decode_attention_for, runner_steps_for, runner_steps_on
from mini_vllm.runner import c_library
from mini_vllm.runner.compiled import CFile, KernelSizes, compiled_attention, compiled_function, in_c
from mini_vllm.runner.steps import FlatBatch
from mini_vllm_labs.grading.labtest.phase6.one_step import expect_paged_attention
from tests.compiler import needs_compiler

STEPS = runner_steps_for("solution")
SOURCE = Path(parts.__file__).resolve().parents[2] / "solutions" / "phase6_decode_attention.c"
COMPILER = c_library.find_compiler()
KERNELS = SOURCE.with_name("phase6_cpu_kernels.c")


@pytest.mark.parametrize("compilers", [(), ("false",), ("true-but-not-there",)])
def test_without_a_working_compiler_attention_is_torch(
    monkeypatch: pytest.MonkeyPatch, compilers: tuple[str, ...]
) -> None:
    monkeypatch.setattr(c_library, "COMPILERS", compilers)
    assert runner_steps_on("solution", "cpu") == STEPS


@needs_compiler
def test_an_unwritten_file_is_not_used() -> None:
    assert decode_attention_for("starter") is None
    assert runner_steps_on("solution", "cpu") != STEPS


@needs_compiler
def test_what_the_compiler_refuses_is_said_in_its_words() -> None:
    code = "void paged_decode_attention(void) { int x = undeclared; }\n"
    with pytest.raises(ValueError, match=r"mine\.c cannot be compiled:\n[^$]*undeclared"):
        compiled_function("paged_decode_attention", CFile("mine.c", code), KernelSizes(1, 1, 8, 4, False))


@needs_compiler
def test_a_file_that_has_changed_is_compiled_again_for_the_next_engine(tmp_path: Path) -> None:
    """In a notebook, the process keeps running while the learner edits the file."""
    source = tmp_path / "mine.c"
    source.write_text(SOURCE.read_text())
    expect_paged_attention(compiled_attention(STEPS.paged_attention, CFile.read(source)), [1], [5])
    source.write_text(SOURCE.read_text().replace("/ state.total[head]", "/ (2 * state.total[head])"))
    with pytest.raises(pytest.fail.Exception):
        expect_paged_attention(compiled_attention(STEPS.paged_attention, CFile.read(source)), [1], [5])


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_only_chunks_and_other_dtypes_attend_through_torch(dtype: torch.dtype) -> None:
    seen = []

    def in_torch(
        query: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, batch: FlatBatch, scale: float
    ) -> torch.Tensor:
        seen.append(batch.query_lens)
        # Slots that tokens must not read contain NaN here; torch reads them, but masks them out.
        return STEPS.paged_attention(query, key_cache.nan_to_num(), value_cache.nan_to_num(), batch, scale)

    attention = compiled_attention(in_torch, CFile.read(SOURCE))
    expect_paged_attention(attention, [1, 9, 8, 30, 1], [30, 33, 8, 130, 1], group=3, dtype=dtype)
    expect_paged_attention(attention, [1, 1], [30, 33], dtype=dtype)
    only_chunks = [[9, 30]] * 2
    assert seen == ([[1, 9, 8, 30, 1]] * 2 + [[1, 1]] * 2 if dtype is torch.float16 else only_chunks)


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("num_kv_heads", "group", "head_dim"), [(2, 4, 32), (1, 7, 20), (3, 1, 128), (4, 2, 8)])
@pytest.mark.parametrize("block_size", [3, 16])
def test_chunks_attend_in_c(num_kv_heads: int, group: int, head_dim: int, block_size: int, dtype: torch.dtype) -> None:
    """Tiles of 16 tokens over 64 slots: chunks that fill tiles, end partway through one, or begin many tiles in."""
    steps = in_c(replace(STEPS, paged_attention=no_attention), SOURCE, KERNELS)
    for queries, seq_lens in (([9], [9]), ([1, 9, 130, 16, 8], [30, 33, 130, 64, 8]), ([70, 1, 65], [200, 9, 193])):
        expect_paged_attention(
            steps.paged_attention,
            queries,
            seq_lens,
            num_kv_heads=num_kv_heads,
            group=group,
            head_dim=head_dim,
            block_size=block_size,
            dtype=dtype,
        )


def no_attention(
    query: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, batch: FlatBatch, scale: float
) -> torch.Tensor:
    raise AssertionError("these tests must not compute attention in torch")


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("layout", ["columns of one product", "rows", "heads are turned", "two layouts"])
def test_k_and_v_reach_their_slots(dtype: torch.dtype, layout: str) -> None:
    heads = torch.randn(5, 7, 8).to(dtype)
    key, value = heads[:, 3:5], heads[:, 5:7]
    if layout == "rows":
        key, value = key.contiguous(), value.contiguous()
    if layout == "heads are turned":
        key, value = (one.transpose(0, 1).contiguous().transpose(0, 1) for one in (key, value))
    if layout == "two layouts":
        key = key.contiguous()
    slots = torch.tensor([9, 3, 0, 14, 4])
    written = []
    for steps in (in_c(STEPS, SOURCE, KERNELS), STEPS):
        keys, values = (torch.zeros(4, 4, 2, 8, dtype=dtype) for _ in range(2))
        steps.write_kv(key, value, keys, values, slots)
        written.append(torch.stack([keys, values]))
    assert torch.equal(*written)
    assert written[0].count_nonzero() == 2 * key.numel()


@needs_compiler
def test_a_library_is_compiled_once_per_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next process finds the library; here, a call that skips this process's own cache stands in for that
    process."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code, options = "int answer(void) { return ANSWER; }", ("-DANSWER=42",)
    load, compile_it = c_library._library.__wrapped__, c_library._compile
    assert load(COMPILER, "a.c", code, options, True).answer() == 42
    [kept] = (tmp_path / "mini-vllm").iterdir()
    kept.write_bytes(b"cut short")
    monkeypatch.setattr(c_library, "_compile", lambda *arguments: "not again")
    with pytest.raises(ValueError, match="not again"):
        load(COMPILER, "a.c", code, options, True)
    monkeypatch.setattr(c_library, "_compile", compile_it)
    assert load(COMPILER, "a.c", code, options, True).answer() == 42
    monkeypatch.setattr(c_library, "_compile", lambda *arguments: "not again")
    assert load(COMPILER, "a.c", code, options, True).answer() == 42
    for changed in (("a.c", code, ("-DANSWER=43",)), ("a.c", code + "\n", options)):
        with pytest.raises(ValueError, match="not again"):
            load(COMPILER, *changed, True)


@needs_compiler
def test_without_a_folder_for_caches_every_process_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert c_library._library.__wrapped__(COMPILER, "a.c", "int one(void) { return 1; }", (), True).one() == 1


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
