"""Phase 6 as a device runs it."""

import torch

from mini_vllm.assembly.parts import Impl, runner_steps_for, triton_kernels_for
from mini_vllm.runner.kernels import with_kernels
from mini_vllm.runner.steps import RunnerSteps


def steps_on(device: torch.device, impl: Impl) -> RunnerSteps:
    """Return phase 6 for a device: with the Triton kernels on a GPU where they are available, else in torch alone."""
    steps = runner_steps_for(impl)
    kernels = triton_kernels_for(impl) if device.type == "cuda" else None
    return steps if kernels is None else with_kernels(steps, kernels)
