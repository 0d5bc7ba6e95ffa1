"""Records, on request, which of the phases' lines ran in each step and which of them decided an event."""

import linecache
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Literal

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.core.request import Request
from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.runs.sandbox.frames import is_learners

Place = tuple[str, int]
"""A file's path relative to the checkout, and a line number."""
What = Literal["allocated", "hit", "freed", "admitted", "preempted", "finished", "refused", "passed"]
OF_REQUESTS: Mapping[CodeType, What] = {
    Request.admit.__code__: "admitted",
    Request.preempt.__code__: "preempted",
    Request.finish.__code__: "finished",
}
OF_BLOCKS: Mapping[str, What] = {"get_new_blocks": "allocated", "touch": "hit", "free_blocks": "freed"}
"""Maps the pool's functions, named as in phase 2, to events."""
PHASE_OF_BLOCKS = "phase2_"
REFUSALS: Mapping[tuple[str, str], object] = {
    ("phase2_", "allocate_slots"): None,
    ("phase5_", "num_new_tokens"): 0,
    ("phase5_", "admits"): False,
}
"""The answer by which a function of a phase refuses its first argument, a request."""
PHASE_OF_STEP = "phase1_"
PASSED = {"seats", "tokens", "closed", "behind", "loop_ended", "overlooked"}
"""The reasons of waiting requests that a step did not reach: the last decision before its end left them out."""
DECISION = re.compile(r"\s*(if|elif|while|for|break|continue)\b")


@dataclass(frozen=True)
class Event:
    """An event of a block or request (`subject` is its number or id), and the lines that caused it.

    The first of `places` decided the event; for a block, it is the line that called the pool. Each further entry is the
    line that called the one before it.
    """

    step: int
    what: What
    subject: int | str
    places: tuple[Place, ...]


@dataclass(frozen=True, repr=False)
class Lines:
    """The phases' lines that ran in each step, the events that they decided, and their files' text at that time."""

    ran: Sequence[frozenset[Place]]
    events: Sequence[Event]
    sources: Mapping[str, str]

    def why(self, subject: int | str, step: int) -> Event | None:
        """Return the last event of a block or a request up to a step, or None."""
        found = (event for event in reversed(self.events) if event.step <= step and event.subject == subject)
        return next(found, None)

    def steps_of(self, file: str, line: int) -> list[int]:
        """Return the steps in which a line ran."""
        return [step for step, places in enumerate(self.ran) if (file, line) in places]

    def encode(self, index: Callable[[str], int]) -> dict[str, Any]:
        """Encode the lines for the player: events keyed by subject, steps keyed by file and line.

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
    """Return the path of a starter or solution relative to the checkout, or an empty string for other files."""
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
    """Records lines while its `with` block runs. Set `step` to each step's number before the step runs.

    The recorder replaces a debugger's trace function and slows down every call.
    """

    step: int = 0
    events: list[Event] = field(default_factory=list)
    _refusals: dict[tuple[int, str], Event] = field(default_factory=dict)
    _ends: dict[int, Place] = field(default_factory=dict)
    _decision: Place | None = None
    _ran: dict[int, set[Place]] = field(default_factory=dict)
    _before: Any = None

    def __enter__(self) -> "LineRecorder":
        self._before = sys.gettrace()
        sys.settrace(self._on_call)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    def lines(self, steps: Sequence[StepRecord]) -> Lines:
        """Return the recorded lines of these steps, and the refusals of the requests that were waiting in them."""
        ran = [frozenset(self._ran.get(step, ())) for step in range(len(steps))]
        known = [event for event in self.events if event.step < len(steps)]
        events = sorted([*known, *self._waits(steps)], key=lambda event: event.step)
        files = {file for places in (*ran, *(event.places for event in events)) for file, _ in places}
        sources = {file: (CHECKOUT / file).read_text(encoding="utf-8") for file in sorted(files)}
        return Lines(ran, events, sources)

    def _waits(self, steps: Sequence[StepRecord]) -> Iterator[Event]:
        """Yield, for each request that got no token, the line that refused it or ended the step before its turn."""
        for step, record in enumerate(steps):
            for name, found in record.get("reasons", {}).items():
                if "preempted" in found["reason"]:
                    continue  # the preemption is recorded as an event instead
                if event := self._refusals.get((step, name)):
                    yield event
                elif step in self._ends and found["reason"] in PASSED and name in record["waiting_after"]:
                    yield Event(step, "passed", name, (self._ends[step],))

    def _on_call(self, frame: FrameType, kind: str, value: object) -> Any:
        if frame.f_code in OF_REQUESTS:
            self._note(OF_REQUESTS[frame.f_code], [frame.f_locals["self"].request_id], frame)
        file, name = place_of(frame.f_code.co_filename), frame.f_code.co_name
        if PHASE_OF_STEP in file and name == "schedule_step":
            self._decision = None
        if PHASE_OF_BLOCKS in file and name in ("touch", "free_blocks"):
            # copied immediately, because the call may modify its argument
            self._note(OF_BLOCKS[name], numbers_in(argument(frame)), frame.f_back)
        return self._on_line if file else None

    def _on_line(self, frame: FrameType, kind: str, value: object) -> Any:
        file, code = place_of(frame.f_code.co_filename), frame.f_code
        if kind == "line":
            self._ran.setdefault(self.step, set()).add((file, frame.f_lineno))
            if PHASE_OF_STEP in file and DECISION.match(linecache.getline(code.co_filename, frame.f_lineno)):
                self._decision = file, frame.f_lineno
        elif kind == "return" and PHASE_OF_BLOCKS in file and code.co_name == "get_new_blocks":
            self._note("allocated", numbers_in(value), frame.f_back)
        elif kind == "return":
            self._note_refusal(file, frame, value)
        return self._on_line

    def _note_refusal(self, file: str, frame: FrameType, value: object) -> None:
        if PHASE_OF_STEP in file and frame.f_code.co_name == "schedule_step" and self._decision:
            self._ends[self.step] = self._decision
        for (phase, name), answer in REFUSALS.items():
            if phase in file and frame.f_code.co_name == name and isinstance(asked := argument(frame), Request):
                key, refused = (self.step, asked.request_id), type(value) is type(answer) and value == answer
                self._refusals.pop(key, None)  # only the function's last return value matters
                if refused:
                    self._refusals[key] = Event(self.step, "refused", asked.request_id, tuple(places_from(frame)))

    def _note(self, what: What, subjects: Sequence[int | str], frame: FrameType | None) -> None:
        if places := tuple(places_from(frame)):
            self.events += [Event(self.step, what, subject, places) for subject in subjects]


def argument(frame: FrameType) -> object:
    """Return the first argument of a method that has just been called, or None if it takes no arguments."""
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[1]) if code.co_argcount > 1 else None


def numbers_in(value: object) -> list[int]:
    """Return the block numbers in a call's argument, which is a number or a sequence. Incorrect code may pass
    anything."""
    items = value if isinstance(value, Sequence) else [value]
    return [item for item in items if isinstance(item, int)]
