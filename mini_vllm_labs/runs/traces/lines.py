"""Records, on request, which lines of the phases ran in each step and which of them decided an event."""

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
"""A file's path relative to the checkout, and a line number."""
What = Literal["allocated", "hit", "freed", "admitted", "preempted", "finished"]
OF_REQUESTS: Mapping[CodeType, What] = {
    Request.admit.__code__: "admitted",
    Request.preempt.__code__: "preempted",
    Request.finish.__code__: "finished",
}
OF_BLOCKS: Mapping[str, What] = {"get_new_blocks": "allocated", "touch": "hit", "free_blocks": "freed"}
"""Maps the pool's functions, named as in phase 2, to events."""
PHASE_OF_BLOCKS = "phase2_"


@dataclass(frozen=True)
class Event:
    """An event of a block (`subject` is its number) or a request (its id), and the lines that caused it.

    The first of `places` decided the event; for a block it is the line that called the pool. The next one called it.
    """

    step: int
    what: What
    subject: int | str
    places: tuple[Place, ...]


@dataclass(frozen=True, repr=False)
class Lines:
    """The phases' lines that ran in each step, the events they decided, and their files' text at that time."""

    ran: Sequence[frozenset[Place]]
    events: Sequence[Event]
    sources: Mapping[str, str]

    def why(self, subject: int | str, step: int) -> Event | None:
        """Return the last event of a block or a request up to a step, or None."""
        found = (event for event in reversed(self.events) if event.step <= step and event.subject == subject)
        return next(found, None)

    def steps_of(self, file: str, line: int) -> list[int]:
        """Return the steps that ran a line."""
        return [step for step, places in enumerate(self.ran) if (file, line) in places]

    def encode(self, index: Callable[[str], int]) -> dict[str, Any]:
        """Encode the lines for the player: events by subject, steps by file and line.

        `index` returns the number of a request in the picture.
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
    """Return the path of a starter or solution relative to the checkout; empty for other files."""
    path = Path(file)
    if is_learners(file) or (path.parent == CHECKOUT / "solutions" and path.name.startswith("phase")):
        return path.relative_to(CHECKOUT).as_posix()
    return ""


def places_from(frame: FrameType | None) -> Iterator[Place]:
    """Yield the phases' lines on a stack, innermost first."""
    while frame is not None:
        if file := place_of(frame.f_code.co_filename):
            yield file, frame.f_lineno
        frame = frame.f_back


@dataclass
class LineRecorder:
    """Records lines while its `with` block runs. Set `step` to the number of each step before it runs.

    It replaces a debugger's trace function and slows every call down.
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
        """Return the recorded lines of the first `num_steps` steps."""
        ran = [frozenset(self._ran.get(step, ())) for step in range(num_steps)]
        events = [event for event in self.events if event.step < num_steps]
        files = {file for places in (*ran, *(event.places for event in events)) for file, _ in places}
        sources = {file: (CHECKOUT / file).read_text(encoding="utf-8") for file in sorted(files)}
        return Lines(ran, events, sources)

    def _on_call(self, frame: FrameType, kind: str, value: object) -> Any:
        if frame.f_code in OF_REQUESTS:
            self._note(OF_REQUESTS[frame.f_code], [frame.f_locals["self"].request_id], frame)
        file, name = place_of(frame.f_code.co_filename), frame.f_code.co_name
        if PHASE_OF_BLOCKS in file and name in ("touch", "free_blocks"):  # now: the call may change its argument
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
    """Return the first argument of a method that has just been called, or None if it takes none."""
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[1]) if code.co_argcount > 1 else None


def numbers_in(value: object) -> list[int]:
    """Return the block numbers in a call's argument, a number or a sequence. Wrong code may pass anything."""
    items = value if isinstance(value, Sequence) else [value]
    return [item for item in items if isinstance(item, int)]
