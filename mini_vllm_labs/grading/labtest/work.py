"""What a call costs and what it leaves behind: lines run, bytes taken, entries kept. No clock is read."""

import gc
import sys
import tracemalloc
from collections.abc import Callable, Collection, Mapping
from types import FrameType, ModuleType
from typing import Any

from mini_vllm.core.request import Request

BYTES_PER_UNIT = 64  # a copy of a list with 8 entries counts like one line
BYTES_OF_A_CALL = 1024  # a call takes its frame, and so does the tracing
NUM_REQUESTS = 150
SHORT, LONG = 9, 900
ROOM = 20  # lines or entries that may differ without a walk or a leak


def work_of(act: Callable[[], object], file: str) -> int:
    """Call `act`; return how many lines of `file` ran, one for each turn of a loop, and how many bytes they took.

    Lists that are copied count by their length, even if they are thrown away at once.
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
    """Call `act`; return how many numbers the tensors hold that torch makes in it. Views of others hold none."""
    from torch import Tensor
    from torch.overrides import TorchFunctionMode

    made: list[int] = []

    class Counting(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            made.extend([result.numel()] if isinstance(result, Tensor) and result._base is None else [])
            return result

    with Counting():
        act()
    return sum(made)


def left_behind(
    phase: ModuleType, use: Callable[[str], Request | None], *objects: object, num_requests: int = NUM_REQUESTS
) -> dict[str, object]:
    """Return what requests that come and go leave, after as many before; entries only if there are many.

    `use` is given the id of a request that comes and goes. If it returns it, nothing may refer to it then.
    """
    for number in range(num_requests):
        use(f"first {number}")
    before = num_entries(phase, *objects)
    gone = list(filter(None, [use(f"then {number}") for number in range(num_requests)]))
    num_kept = num_entries(phase, *objects) - before
    return {"entries left by them": num_kept if num_kept > ROOM else 0, "references to them": num_references(gone)}


def num_references(requests: list[Request]) -> int:
    """Return how many references there are to requests, besides those of this list."""

    def count() -> int:
        return sum(map(sys.getrefcount, requests)) - sum(map(sys.getrefcount, [object() for _ in requests]))

    if count():
        gc.collect()  # functions within a function may refer to each other, and go later
    return count()


def num_entries(phase: ModuleType, *objects: object) -> int:
    """Return how many entries all containers hold that these objects, or the globals of a phase, lead to."""
    left = [*objects, *(value for name, value in vars(phase).items() if not name.startswith("__"))]
    num_found = 0
    seen: dict[int, object] = {}  # keeps what it has seen, so that no id comes twice
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
    """Return what an object, a class or a function of the phase leads to."""
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    parts = [getattr(thing, name, None) for name in (*slots, "__defaults__", "__kwdefaults__")]
    cells = [cell.cell_contents for cell in getattr(thing, "__closure__", None) or ()]
    return [*getattr(thing, "__dict__", {}).values(), *parts, *cells]
