"""Tests which functions the runner uses: Triton kernels on a GPU if available, otherwise torch."""

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mini_vllm.assembly import parts
from mini_vllm.assembly.parts import runner_steps_for, runner_steps_on, triton_kernels_for

STEPS = runner_steps_for("solution")


def no_function(*arguments: Any, **named: Any) -> Any:
    raise AssertionError("must not be called")


def test_a_cpu_never_loads_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "triton_kernels_for", no_function)
    monkeypatch.setattr(parts, "decode_attention_for", lambda impl: None)  # pretends that there is no C compiler
    assert runner_steps_on("solution", "cpu") == STEPS


def test_a_gpu_uses_kernels_where_they_are_available(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = SimpleNamespace(reshape_and_cache=no_function, paged_attention=no_function)
    monkeypatch.setattr(parts, "triton_kernels_for", lambda impl: mine)
    on_gpu = runner_steps_on("solution", "cuda")
    assert (on_gpu.write_kv, on_gpu.paged_attention, on_gpu.can_be_recorded) == (no_function, no_function, True)
    monkeypatch.setattr(parts, "triton_kernels_for", lambda impl: None)
    assert runner_steps_on("solution", "cuda") == STEPS


def test_unwritten_kernels_are_not_used() -> None:
    assert triton_kernels_for("starter") is None


def test_a_comment_that_names_the_error_disables_no_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels_in_a_test.py").write_text("def f():  # no longer raises NotImplementedError\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert parts.is_written(import_module("kernels_in_a_test"))
