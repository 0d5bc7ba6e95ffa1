"""Runs a learner's function as if on a GPU, to detect (without a GPU) code that ignores the device."""

import importlib
from collections.abc import Callable
from typing import Any


def device_tensors() -> Any:
    """Import `device_tensors` lazily, because it loads torch, which phases 1 to 5 do not need."""
    return importlib.import_module("mini_vllm_labs.grading.plays.device_tensors")


def on_a_device(function: Callable[..., Any], *positional: Any, **named: Any) -> Any:
    """Call a function as if its tensors were on a GPU; torch may raise its usual error.

    Raises `RuntimeError` if the function returns a tensor on the host.
    """
    devices = device_tensors()
    there = [devices.on_device(one) if hasattr(one, "device") else one for one in (*positional, *named.values())]
    with devices.OnDevice():
        found = function(*there[: len(positional)], **dict(zip(named, there[len(positional) :], strict=True)))
    if hasattr(found, "device") and not isinstance(found, devices.DeviceTensor):
        raise RuntimeError("the result is on the host, but the arguments are on a device")
    return devices.marked(found, False)
