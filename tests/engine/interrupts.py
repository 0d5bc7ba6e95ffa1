"""Raises an exception at any line of the engine or the reference, as Ctrl-C or running out of memory would."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
WATCHED = (str(ROOT / "mini_vllm"), str(ROOT / "solutions"))
# the checks only read the state, so it is the same on every line of a check
CHECKS = str(ROOT / "mini_vllm" / "core" / "invariants.py")


class Interruption:
    """The location where the exception was raised, as `function:line`; empty until then."""

    place = ""


@contextmanager
def interrupted_at(line: int, error: BaseException, since: str = "") -> Iterator[Interruption]:
    """Raise `error` once, when the `line`-th line of the engine's or the reference's code is about to run.

    Lines are counted from the first call of the function named `since`, if given.
    """
    seen, fired = 0, Interruption()
    counts = not since

    def on_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        if event == "line" and counts and not fired.place:
            seen += 1
            if seen == line:
                fired.place = f"{frame.f_code.co_name}:{frame.f_lineno}"
                raise error
        return on_line

    def on_call(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal counts
        counts = counts or frame.f_code.co_name == since
        file = frame.f_code.co_filename
        return on_line if file.startswith(WATCHED) and file != CHECKS and not fired.place else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        yield fired
    finally:
        sys.settrace(before)
