"""The sampler in C follows the docstring for each row, in any batch, with any number of threads."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from mini_vllm import SamplingParams
from mini_vllm.assembly import parts
from mini_vllm.assembly.parts import runner_steps_for
from mini_vllm.runner.compiled import CFile
from mini_vllm.runner.compiled_sampler import compiled_sample
from mini_vllm_labs.grading.labtest.phase6.sampling_checks import naive_sample, random_row
from tests.compiler import needs_compiler

IN_TORCH = runner_steps_for("solution").sample
FILE = CFile.read(Path(parts.__file__).resolve().parents[2] / "solutions" / "phase6_cpu_sampler.c", is_ours=True)
SAMPLE = compiled_sample(IN_TORCH, FILE)
WIDTHS = [1, 2, 3, 7, 8, 9, 63, 64, 65, 300, 1537, 5000]
SETTINGS: list[dict[str, Any]] = [{"top_k": 50, "top_p": 0.9}, {"top_p": 0.9}, {"top_k": 1000}, {}]

pytestmark = needs_compiler


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", WIDTHS)
def test_tokens_are_those_of_a_slow_sampler(width: int, dtype: torch.dtype) -> None:
    rng = random.Random(width)
    for _ in range(20 if width < 1000 else 4):
        logits, params, draws = zip(*(random_row(rng, width) for _ in range(6)), strict=True)
        stored = torch.tensor(logits).to(dtype)
        tokens = SAMPLE(stored, params, draws)
        for row, token, one, draw in zip(stored.double().tolist(), tokens, params, draws, strict=True):
            expected = naive_sample(row, one, draw)
            assert expected is None or row[token] == row[expected], (one, draw, token, expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_is_sampled_as_alone_and_as_in_torch(threads: int) -> None:
    """24 rows of 151,936 logits: with top-k or top-p cuts, without cuts, and greedy."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    logits = torch.randn(24, 151_936, generator=torch.Generator().manual_seed(7)) * 3
    params = [SamplingParams(temperature=0.4 * (number % 3), **SETTINGS[number % 4]) for number in range(24)]
    draws = [number / 24 for number in range(24)]
    tokens = SAMPLE(logits, params, draws)
    assert tokens == IN_TORCH(logits, params, draws)
    assert tokens == [SAMPLE(logits[row : row + 1], [params[row]], [draws[row]])[0] for row in range(24)]
    assert len(set(tokens)) == 24
    torch.set_num_threads(before)


def test_of_equal_logits_greedy_takes_the_first_as_torch_does() -> None:
    """Logits in bfloat16 are often equal, and a greedy text must not depend on the rows sampled next to it."""
    logits = torch.randn(200, 999, generator=torch.Generator().manual_seed(7)).round().bfloat16()
    assert (logits == logits.amax(dim=-1, keepdim=True)).sum() > 400
    assert SAMPLE(logits, [SamplingParams()] * 200, [0.0] * 200) == logits.argmax(dim=-1).tolist()


def test_a_cut_keeps_at_least_one_token() -> None:
    """A cut keeps a token even if the sum that it must reach is rounded to 0."""
    logits, params = torch.zeros(3, 70), [SamplingParams(temperature=1.0, top_p=5e-324)] * 3
    logits[:, 66] = 9.0
    for flush in (False, True):
        torch.set_flush_denormal(flush)
        try:
            # the sampler must not return what was left over in memory
            assert SAMPLE(-logits, params, [0.0, 0.5, 0.99]) != [66] * 3
            assert SAMPLE(logits, params, [0.0, 0.5, 0.99]) == [66] * 3
        finally:
            torch.set_flush_denormal(False)


def test_zero_rows_give_no_tokens_and_slices_of_wider_tensors_are_read_in_place() -> None:
    assert SAMPLE(torch.zeros(0, 9), [], []) == []
    logits = torch.randn(4, 40)[:, ::4]
    assert SAMPLE(logits, [SamplingParams()] * 4, [0.0] * 4) == logits.argmax(dim=-1).tolist()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=str)
def test_other_dtypes_are_sampled_in_torch(dtype: torch.dtype) -> None:

    def in_torch(logits: torch.Tensor, params: Sequence[SamplingParams], draws: Sequence[float]) -> list[int]:
        assert logits.dtype is dtype
        return [5]

    assert compiled_sample(in_torch, FILE)(torch.zeros(1, 9, dtype=dtype), [SamplingParams()], [0.0]) == [5]
