"""Measures a call's cost and what it leaves behind, without a clock: lines run, bytes allocated and entries kept."""

import gc
import sys
import tracemalloc
from collections.abc import Callable, Collection, Mapping
from types import FrameType, ModuleType
from typing import Any

from mini_vllm.core.request import Request

BYTES_PER_UNIT = 64  # copying a list of 8 entries costs as much as one line
BYTES_OF_A_CALL = 1024  # for the frames of the call and of the tracer
NUM_REQUESTS = 150
SHORT, LONG = 9, 900
ROOM = 20  # a difference in lines or entries too small to prove a leak or a loop over everything


def work_of(act: Callable[[], object], file: str) -> int:
    """Call `act`; return its work: the lines of `file` that ran, counted per loop iteration, plus allocated memory.

    A copied list counts by its length, even if the copy is discarded immediately.
    """
    work = last = 0

    def trace(frame: FrameType, event: str, value: object) -> Any:
        nonlocal work, last
        if frame.f_code.co_filename != file:
            return None
        now, peak = tracemalloc.get_traced_memory()
        work += (event == "line") + max(0, peak - last - BYTES_OF_A_CALL) // BYTES_PER_UNIT
        tracemalloc.reset_peak()
        last = now
        return trace

    before = sys.gettrace()
    tracemalloc.start()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
        tracemalloc.stop()
    return work


def numbers_made(act: Callable[[], object]) -> int:
    """Call `act`; return the total size of the tensors that torch makes during the call. Views count as having size
    0."""
    from torch import Tensor
    from torch.overrides import TorchFunctionMode

    made: list[int] = []

    class CountingFunctions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            made.extend([result.numel()] if isinstance(result, Tensor) and result._base is None else [])
            return result

    with CountingFunctions():
        act()
    return sum(made)


def left_behind(
    phase: ModuleType, use: Callable[[str], Request | None], *objects: object, num_requests: int = NUM_REQUESTS
) -> dict[str, object]:
    """Measure what requests leave behind after a warm-up by as many earlier requests; few entries count as 0.

    `use` receives the id of a request that comes and goes. If it returns the request, no references to the request may
    remain.
    """
    for number in range(num_requests):
        use(f"first {number}")
    before = num_entries(phase, *objects)
    gone = list(filter(None, [use(f"then {number}") for number in range(num_requests)]))
    num_kept = num_entries(phase, *objects) - before
    return {"entries left by them": num_kept if num_kept > ROOM else 0, "references to them": num_references(gone)}


def num_references(requests: list[Request]) -> int:
    """Count the references to requests that are held outside this list."""

    def count() -> int:
        return sum(map(sys.getrefcount, requests)) - sum(map(sys.getrefcount, [object() for _ in requests]))

    if count():
        gc.collect()  # nested functions may form reference cycles, which are freed later
    return count()


def num_entries(phase: ModuleType, *objects: object) -> int:
    """Count the entries of all containers reachable from these objects or from a phase's globals."""
    left = [*objects, *(value for name, value in vars(phase).items() if not name.startswith("__"))]
    num_found = 0
    seen: dict[int, object] = {}  # keeps the objects alive, so that ids are not reused
    while left:
        thing = left.pop()
        if id(thing) not in seen and not isinstance(thing, str | bytes | range):
            seen[id(thing)] = thing
            if isinstance(thing, Mapping):
                left.extend(thing.keys())
            if isinstance(thing, Collection) and not isinstance(thing, type):
                num_found += len(thing)
                left.extend(thing.values() if isinstance(thing, Mapping) else thing)
            if hasattr(thing, "cache_info"):
                num_found += thing.cache_info().currsize
            elif phase.__name__ in (getattr(thing, "__module__", ""), type(thing).__module__):
                left += _parts(thing)
    return num_found


def _parts(thing: Any) -> list[object]:
    """Return the objects referenced by an object, a class or a function of the phase."""
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    parts = [getattr(thing, name, None) for name in (*slots, "__defaults__", "__kwdefaults__")]
    cells = [cell.cell_contents for cell in getattr(thing, "__closure__", None) or ()]
    return [*getattr(thing, "__dict__", {}).values(), *parts, *cells]
