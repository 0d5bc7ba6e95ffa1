"""On a GPU, a step waits only once, for its tokens. Reading a single number, which costs nothing on a CPU, would wait
for the GPU."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from mini_vllm.assembly.parts import runner_steps_for
from mini_vllm.core.step import ModelRunnerOutput
from mini_vllm.runner.paged_model_runner import PagedModelRunner
from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.grading.plays.phase6_plays import row_of
from tests.model.pretended_gpu import GPU, HOST, GpuTensor, PretendedGpu

STEPS = runner_steps_for("solution")
GREEDY, WARM = SamplingParams(), SamplingParams(temperature=0.8)
TOP_K, TOP_P = SamplingParams(temperature=0.7, top_k=5), SamplingParams(temperature=0.6, top_p=0.9)
BOTH = SamplingParams(temperature=1.5, top_k=9, top_p=0.5)
FETCHED = ["aten::_to_copy"]
MIXES = {"greedy": [GREEDY] * 4, "warm": [WARM] * 4, "all kinds": [BOTH, GREEDY, TOP_P, WARM, TOP_K, GREEDY, BOTH]}


@pytest.mark.parametrize("mix", MIXES)
def test_sampling_waits_once(mix: str) -> None:
    params = MIXES[mix]
    draws = [(3 * row + 1) % 10 / 10 for row in range(len(params))]
    logits = torch.randn(len(params), 50, generator=torch.Generator().manual_seed(7))
    expected = STEPS.sample(logits, params, draws)
    with PretendedGpu() as gpu:
        assert STEPS.sample(GpuTensor(logits.clone()), params, draws) == expected
    assert gpu.waits == FETCHED


def executed(spoiled: dict[int, float], device: torch.device) -> ModelRunnerOutput:
    """Execute a step with requests of all kinds, on a model in which some rows of logits are not finite."""
    logits = torch.randn(7, 50, generator=torch.Generator().manual_seed(3))
    for row, number in spoiled.items():
        logits[row, 11] = number
    batch = [row_of(name, 5, 1, [3 * index + 1, 3 * index + 2]) for index, name in enumerate("ABCDEFG")]
    for scheduled, params in zip(batch, MIXES["all kinds"], strict=True):
        scheduled.request.sampling_params = params
    given = logits if device == HOST else GpuTensor(logits)
    model: Any = SimpleNamespace(vocab_size=50, block_size=4, device=device, forward=lambda flat: given)
    return PagedModelRunner(model, STEPS).execute_model(batch)


@pytest.mark.parametrize("spoiled", [{}, {2: torch.nan, 4: torch.inf}, {0: -torch.inf}], ids=["all", "two", "one"])
def test_a_step_waits_once_and_leaves_out_what_is_not_finite(spoiled: dict[int, float]) -> None:
    with PretendedGpu() as gpu:
        found = executed(spoiled, GPU)
    assert gpu.waits[:1] == FETCHED
    assert len(gpu.waits) == 1 or spoiled  # rows can be dropped only with a list of the rows to keep
    assert found == executed(spoiled, HOST)
    assert set(found.errors) == {"ABCDEFG"[row] for row in spoiled}
    kept = {name: token for name, token in executed({}, HOST).sampled_token_ids.items() if name not in found.errors}
    assert found.sampled_token_ids == kept


WAITING: dict[str, Callable[[Tensor], Any]] = {
    "a number": lambda logits: float(logits[0, 0]),
    "a condition": lambda logits: bool((logits > 0).any()),
    "an index by a list": lambda logits: logits[[0, 1]],
    "a mask": lambda logits: logits[logits > 0],
    "numbers put by a mask": lambda logits: logits.__setitem__(logits > 0, logits.new_ones(6)),
    "positions": lambda logits: (logits > 0).nonzero(),
    "a copy to the host": lambda logits: logits.cpu(),
    "a copy from the host": lambda logits: logits + torch.ones(3).to(GPU),
    "a copy in place": lambda logits: logits.copy_(torch.ones(2, 3)),
}


@pytest.mark.parametrize("name", WAITING)
def test_everything_that_waits_is_noted(name: str) -> None:
    with PretendedGpu() as gpu:
        WAITING[name](GpuTensor(torch.ones(2, 3)))
    assert len(gpu.waits) == 1


def test_numbers_that_are_made_on_the_gpu_are_refused() -> None:
    with pytest.raises(AssertionError, match="on the GPU from Python numbers"), PretendedGpu():
        torch.tensor([1, 2], device=GPU) + 1
