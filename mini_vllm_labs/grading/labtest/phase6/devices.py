"""Detects and explains tensors on the wrong device without a GPU, by passing `DeviceTensor`s as arguments."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from mini_vllm_labs.grading.labtest.expect import lab_failure
from mini_vllm_labs.grading.plays.device_tensors import MESSAGE, DeviceTensor, OnDevice, marked, on_device


def call_on_a_device(function: Callable[..., Any], *arguments: Any, name: str, situation: str) -> Any:
    """Call a function as if its arguments were on a GPU; explain tensors created on or returned from the host."""
    result, error = None, ""
    try:
        with OnDevice():
            result = function(*map(on_device, arguments))
    except RuntimeError as raised:
        if str(raised) != MESSAGE:
            raise
        # reported after the handler has run, because otherwise torch's traceback would come first
        error = f"RuntimeError: {MESSAGE}"
    if isinstance(result, Tensor) and not isinstance(result, DeviceTensor):
        error = "a tensor on the host"
    if error:
        lab_failure(
            rule=f"Tensors that {name} makes are on the device of its arguments.",
            situation=f"run as on a machine with a GPU, with all arguments on the GPU\n{situation}",
            expected="a result on the device of the arguments",
            yours=error,
            hint="which call makes a new tensor, or one from Python numbers, without `device=`?",
        )
    return marked(result, False)
