"""Which lines of the phases ran in each step, and which of them decided what happened. Recorded only when asked for."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Literal

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.core.request import Request
from mini_vllm_labs.runs.sandbox.frames import is_learners

Place = tuple[str, int]
"""A file, from the checkout, and a line of it."""
What = Literal["allocated", "hit", "freed", "admitted", "preempted", "finished"]
OF_REQUESTS: Mapping[CodeType, What] = {
    Request.admit.__code__: "admitted",
    Request.preempt.__code__: "preempted",
    Request.finish.__code__: "finished",
}
OF_BLOCKS: Mapping[str, What] = {"get_new_blocks": "allocated", "touch": "hit", "free_blocks": "freed"}
"""The pool's functions, by the names that phase 2 gives them."""
PHASE_OF_BLOCKS = "phase2_"


@dataclass(frozen=True)
class Event:
    """What happened to a block (`subject` is its number) or a request (its id), and the lines that brought it about.

    The first of `places` decided it: for a block the line that asked the pool. It was called from the next one.
    """

    step: int
    what: What
    subject: int | str
    places: tuple[Place, ...]


@dataclass(frozen=True, repr=False)
class Lines:
    """The lines of the phases that ran in each step, what they decided, and the text of their files at that time."""

    ran: Sequence[frozenset[Place]]
    events: Sequence[Event]
    sources: Mapping[str, str]

    def why(self, subject: int | str, step: int) -> Event | None:
        """Return the last event of a block or a request up to a step; None if it had none."""
        found = (event for event in reversed(self.events) if event.step <= step and event.subject == subject)
        return next(found, None)

    def steps_of(self, file: str, line: int) -> list[int]:
        """Return the steps that ran a line."""
        return [step for step, places in enumerate(self.ran) if (file, line) in places]

    def encode(self, index: Callable[[str], int]) -> dict[str, Any]:
        """Return the lines for the player: events by the key that it follows, steps by file and line.

        `index` is the number of a request in the picture.
        """
        files = list(self.sources)
        events: dict[str, list[list[Any]]] = {}
        for event in self.events:
            subject = event.subject
            key = f"block:{subject}" if isinstance(subject, int) else f"request:{index(subject)}"
            places = [[files.index(file), line] for file, line in event.places]
            events.setdefault(key, []).append([event.step, event.what, places])
        steps: list[dict[int, list[int]]] = [{} for _ in files]
        for step, places_of_step in enumerate(self.ran):
            for file, line in sorted(places_of_step):
                steps[files.index(file)].setdefault(line, []).append(step)
        return {"files": [[file, self.sources[file].splitlines()] for file in files], "events": events, "steps": steps}


@cache
def place_of(file: str) -> str:
    """Return a starter's or a reference's file from the checkout; empty for any other file."""
    path = Path(file)
    if is_learners(file) or (path.parent == CHECKOUT / "solutions" and path.name.startswith("phase")):
        return path.relative_to(CHECKOUT).as_posix()
    return ""


def places_from(frame: FrameType | None) -> Iterator[Place]:
    """Yield the lines of the phases on a stack, innermost first."""
    while frame is not None:
        if file := place_of(frame.f_code.co_filename):
            yield file, frame.f_lineno
        frame = frame.f_back


@dataclass
class LineRecorder:
    """Records while its block runs. `step` is the number of the step that runs; set it before each.

    It takes the place of a debugger's trace function, and every call costs more while it is there.
    """

    step: int = 0
    events: list[Event] = field(default_factory=list)
    _ran: dict[int, set[Place]] = field(default_factory=dict)
    _before: Any = None

    def __enter__(self) -> "LineRecorder":
        self._before = sys.gettrace()
        sys.settrace(self._on_call)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    def lines(self, num_steps: int) -> Lines:
        """Return what was recorded of the first steps."""
        ran = [frozenset(self._ran.get(step, ())) for step in range(num_steps)]
        events = [event for event in self.events if event.step < num_steps]
        files = {file for places in (*ran, *(event.places for event in events)) for file, _ in places}
        sources = {file: (CHECKOUT / file).read_text(encoding="utf-8") for file in sorted(files)}
        return Lines(ran, events, sources)

    def _on_call(self, frame: FrameType, kind: str, value: object) -> Any:
        if frame.f_code in OF_REQUESTS:
            self._note(OF_REQUESTS[frame.f_code], [frame.f_locals["self"].request_id], frame)
        file, name = place_of(frame.f_code.co_filename), frame.f_code.co_name
        if PHASE_OF_BLOCKS in file and name in ("touch", "free_blocks"):  # now: it may change what it was given
            self._note(OF_BLOCKS[name], numbers_in(argument(frame)), frame.f_back)
        return self._on_line if file else None

    def _on_line(self, frame: FrameType, kind: str, value: object) -> Any:
        file = place_of(frame.f_code.co_filename)
        if kind == "line":
            self._ran.setdefault(self.step, set()).add((file, frame.f_lineno))
        elif kind == "return" and PHASE_OF_BLOCKS in file and frame.f_code.co_name == "get_new_blocks":
            self._note("allocated", numbers_in(value), frame.f_back)
        return self._on_line

    def _note(self, what: What, subjects: Sequence[int | str], frame: FrameType | None) -> None:
        if places := tuple(places_from(frame)):
            self.events += [Event(self.step, what, subject, places) for subject in subjects]


def argument(frame: FrameType) -> object:
    """Return the argument of a method that has just been called, None if it takes none."""
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[1]) if code.co_argcount > 1 else None


def numbers_in(value: object) -> list[int]:
    """Return the blocks of a call: one number, or those of a sequence. Wrong code may pass anything."""
    items = value if isinstance(value, Sequence) else [value]
    return [item for item in items if isinstance(item, int)]
