"""A learner's function on a device that is not the host. No GPU is needed to see what forgets it."""

import importlib
from collections.abc import Callable
from typing import Any


def device_tensors() -> Any:
    """Return the module, for which torch is loaded: phases 1 to 5 are judged without."""
    return importlib.import_module("mini_vllm_labs.grading.labtest.device_tensors")


def on_a_device(function: Callable[..., Any], *positional: Any, **named: Any) -> Any:
    """Call a function as if its tensors were on a GPU, which may end in torch's error.

    Raises `RuntimeError` if it returns a tensor that is not on the device of the arguments.
    """
    devices = device_tensors()
    there = [devices.on_device(one) if hasattr(one, "device") else one for one in (*positional, *named.values())]
    with devices.OnDevice():
        found = function(*there[: len(positional)], **dict(zip(named, there[len(positional) :], strict=True)))
    if hasattr(found, "device") and not isinstance(found, devices.DeviceTensor):
        raise RuntimeError("the result is on the host, the arguments are on a device")
    return devices.marked(found, False)
