"""Which functions the runner uses: Triton kernels on a GPU where they are available, else torch."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from course.labtest.phase6.batches import naive_flat_batch, row_of
from mini_vllm.assembly import parts
from mini_vllm.assembly.parts import runner_steps_for, runner_steps_on, triton_kernels_for
from mini_vllm.runner.kernels import TritonKernels, with_kernels

STEPS = runner_steps_for("solution")


def no_function(*arguments: Any, **named: Any) -> Any:
    raise AssertionError("not to be called")


def returns(value: Any) -> Any:
    return lambda *arguments: value


def test_a_cpu_never_loads_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "triton_kernels_for", no_function)
    assert runner_steps_on("solution", "cpu") == STEPS


def test_a_gpu_uses_kernels_where_they_are_available(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = TritonKernels(no_function, no_function)
    monkeypatch.setattr(parts, "triton_kernels_for", lambda impl: mine)
    assert runner_steps_on("solution", "cuda").write_kv is no_function
    monkeypatch.setattr(parts, "triton_kernels_for", lambda impl: None)
    assert runner_steps_on("solution", "cuda") == STEPS


def test_unwritten_kernels_are_not_used() -> None:
    assert triton_kernels_for("starter") is None


def test_a_comment_that_names_the_error_disables_no_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels_in_a_test.py").write_text("def f():  # no longer raises NotImplementedError\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert parts.is_written(import_module("kernels_in_a_test"))


@pytest.mark.parametrize(("query_lens", "called"), [([1, 1], "kernel"), ([1, 2], "torch")])
def test_only_decode_steps_use_the_attention_kernel(query_lens: list[int], called: str) -> None:
    torch_steps = replace(STEPS, paged_attention=returns("torch"))
    steps = with_kernels(torch_steps, TritonKernels(no_function, returns("kernel")))
    rows = [row_of(name, 0, n, [block]) for name, n, block in zip("AB", query_lens, (1, 2), strict=True)]
    batch = naive_flat_batch(rows, 4)
    caches = torch.zeros(3, 4, 1, 8)
    result: object = steps.paged_attention(torch.zeros(sum(query_lens), 2, 8), caches, caches, batch, 1.0)
    assert result == called
