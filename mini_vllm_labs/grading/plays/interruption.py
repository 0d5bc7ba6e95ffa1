"""Plays a whole case between two calls of a different case, to reveal state that objects share."""

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mini_vllm_labs.grading.plays.earlier_answers import wrapped

FIRST, LAST = 2, 7  # the other case may be played before any call from the first number to the last


class Interruption:
    """Calls `between` once, just before the `number`-th call into the phase's code."""

    def __init__(self, phase: Any, number: int, between: Callable[[], object]) -> None:
        self.phase = phase
        self._left = number
        self._between = between

    def ignores(self, caller: object) -> bool:
        """Return whether to ignore a call, because it comes from the learner's own file or its cost is being
        measured."""
        is_measured = tracemalloc.is_tracing() or sys.gettrace() is not None or sys.getprofile() is not None
        return self._left == 0 or caller is vars(self.phase) or is_measured

    def call(self, name: str, function: Callable[..., Any], *positional: Any, **named: Any) -> Any:
        """Make a call; if the other case is due, play it first."""
        self._left -= 1
        if self._left == 0:
            self._between()
        return function(*positional, **named)


@contextmanager
def interrupted(phase: Any, number: int, between: Callable[[], object]) -> Iterator[None]:
    """Call `between` just before the `number`-th call that the `with` block makes into the phase's code."""
    with wrapped(Interruption(phase, number, between)):
        yield
