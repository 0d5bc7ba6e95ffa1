"""Explains an exception, or the end of a process, to the learner."""

import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Literal

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.runs.sandbox.errors import OutOfTime, StarterNotLoadedError, UnusableAnswerError, out_of_time_after
from mini_vllm_labs.runs.sandbox.frames import call_of, is_learners, learners_frames, place, place_of, variables_at
from mini_vllm_labs.runs.sandbox.source_text import whereabouts
from mini_vllm_labs.runs.sandbox.watch import ended_for_cpu_time, waiting_seconds

NOT_WRITTEN = re.compile(r"Phase (\d+), tasks? \d+")
FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)
HINTS: dict[type[BaseException], str] = {
    NameError: "which line should have given that name its value, and did it run?",
    AttributeError: "what is the object before the dot here, and where does it come from?",
    KeyError: "which keys does the dict have at this moment? Should this one be there, or may it be missing?",
    IndexError: "how many entries are there here, and which does this line take? The last of n has index n - 1.",
    TypeError: "which value in this line is not what you expected, and where does it come from?",
    ValueError: "which value in this line, or in a condition that led here, is not what you expected?",
    ZeroDivisionError: "when is the divisor 0, and what should the answer be in that case?",
}
SIGNATURE_WORDS = re.compile(r"(?P<name>[\w.]+)\(\) (takes|missing|got|needs)")


def shown_path(path: Path) -> str:
    """Return a path relative to the checkout, as learners see it."""
    return path.relative_to(CHECKOUT).as_posix() if path.is_relative_to(CHECKOUT) else str(path)


def is_not_written(error: BaseException) -> bool:
    return unwritten_phase(error) > 0


def unwritten_phase(error: BaseException) -> int:
    """Return the phase named by our `NotImplementedError`, or 0 for any other exception."""
    found = NOT_WRITTEN.match(str(error)) if isinstance(error, NotImplementedError) else None
    return int(found[1]) if found else 0


def explain(error: BaseException, names: Mapping[str, str]) -> str:
    """Explain an exception in a graded test. `names` maps the phase's names to their parameters."""
    if is_not_written(error):
        return f"Not written yet: {message_of(error)}"
    if isinstance(error, UnusableAnswerError | StarterNotLoadedError):
        return message_of(error) + notes_of(error)
    if missing := missing_name(error):
        return f"{missing} is missing from starter.py.{notes_of(error)}"
    lines = [headline(error), *location(error), *filter(None, [whereabouts(error)])]
    if isinstance(error, TypeError) and (found := SIGNATURE_WORDS.match(message_of(error))):
        matches = [name for name in names if name == found["name"] or name.endswith(f".{found['name']}")]
        lines += [f"  expected: {name}{names[name]}" for name in matches]
    hint = hint_for(error)
    return "\n".join(lines) + notes_of(error) + (f"\nHint: {hint}" if hint else "")


def headline(error: BaseException) -> str:
    kind, text = type(error).__name__, message_of(error)
    if isinstance(error, OutOfTime):
        return f"Your code was {text}."
    if isinstance(error, RecursionError):
        return "Your calls never ended (RecursionError)."
    if isinstance(error, MemoryError):
        return "Your code used more memory than a test allows (MemoryError)."
    if isinstance(error, SystemExit):
        return f"Your code ended the program ({kind}: {text})."
    if isinstance(error, EOFError) and "input" in place_in(error):
        return "Your code waits for input, and a graded test has none."
    return f"{kind}: {text}" if text else kind


def location(error: BaseException) -> list[str]:
    """Return text lines that show the learner's line that raised the exception, its variables, and the calls that led
    there."""
    frames = learners_frames(error.__traceback__)
    if not frames:
        return []
    if isinstance(error, RecursionError):
        circle = dict.fromkeys(place_of(frame, line) for frame, line in frames[-20:])
        return [f"  {here}" for here in circle] + [f"  first call: {call_of(frames[0][0])}"]
    lines = lines_of(frames, in_loop=isinstance(error, OutOfTime))
    return lines[:-1] if notes_of(error) else lines


def lines_of(frames: Sequence[tuple[FrameType, int]], *, in_loop: bool) -> list[str]:
    """Describe the learner's innermost frame with its variables, up to two callers, and the first call."""
    lines = [f"  {place_of(*frames[-1])}"]
    if variables := variables_at(*frames[-1], in_loop=in_loop):
        lines.append(f"  there: {', '.join(variables)}")
    if len(frames) > 1:
        lines += [f"  called in {place_of(*frame)}" for frame in frames[-2:-4:-1]]
    return [*lines, f"  the call: {call_of(frames[0][0])}"]


def hint_for(error: BaseException) -> str:
    """Return a guiding question, or an empty string if the message already has one."""
    if "\nHint: " in notes_of(error):
        return ""
    if isinstance(error, OutOfTime):
        return "what changes from one turn of this loop to the next, and can that ever end it?"
    if isinstance(error, RecursionError):
        return "when does the function return without calling itself, and does each call come closer to that case?"
    if isinstance(error, MemoryError):
        return "what grows in this loop, and what should have ended it?"
    return next((hint for kind, hint in HINTS.items() if isinstance(error, kind)), "")


def notes_of(error: BaseException) -> str:
    return "".join(f"\n{note}" for note in getattr(error, "__notes__", []))


def message_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as other:
        return f"(its text cannot be shown: {type(other).__name__})"


def missing_name(error: BaseException) -> str:
    """Return the missing name in the learner's module or class, or an empty string for other errors."""
    if not isinstance(error, AttributeError) or place_in(error):
        return ""
    owner = error.obj
    if isinstance(owner, ModuleType) and is_learners(owner.__file__ or ""):
        return str(error.name)
    kind = owner if isinstance(owner, type) else type(owner)
    return f"{kind.__name__}.{error.name}" if kind.__module__.endswith(".starter") else ""


def place_in(error: BaseException) -> str:
    """Return the innermost line from the learner's files in the traceback, or an empty string."""
    frames = learners_frames(error.__traceback__)
    return place_of(*frames[-1]) if frames else ""


def no_answer_within(limit: str) -> str:
    """Return a message that leaves open whether the code or the machine was slow."""
    return f"No answer within {limit}: the code does not end, or the machine is busy with other work. Try again."


def explain_death(
    status: int | None, trace: str, seconds: float, waited: float | None = None
) -> tuple[Literal["timeout", "crashed"], str]:
    """Return (outcome, message) for a process that ended without an answer.

    `status` is None if the process was killed. `seconds` is its CPU time limit. `waited` is the wall time after which
    it was killed, or None if both limits of a `Watchdog` applied.
    """
    where = _place_in_trace(trace)
    if status is None:
        both = f"{seconds:g} seconds of CPU time, or {waiting_seconds(seconds):g} by the clock"
        return "timeout", no_answer_within(both if waited is None else f"{waited:g} seconds") + where
    if trace.startswith("Timeout"):
        used = f"No answer within {waiting_seconds(seconds):g} seconds, of which less than {seconds:g} were computed"
        return "timeout", f"{used}: the code waits for something, or the machine is busy with other work.{where}"
    if ended_for_cpu_time(status):
        return (
            "timeout",
            f"Your code was {out_of_time_after(seconds)()} of CPU time.{where}\nHint: {hint_for(OutOfTime())}",
        )
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        if name == "SIGKILL":
            return "crashed", f"The system killed Python (SIGKILL): perhaps it took too much memory.{where}"
        return "crashed", f"Python itself crashed ({name}).{where}"
    return "crashed", f"Your code ended the whole process with exit code {status} (os._exit?).{where}"


def _place_in_trace(trace: str) -> str:
    threads = trace.split("\n\n")
    for thread in sorted(threads, key=lambda text: "runtestprotocol" not in text):
        # begins with the thread that ran the test
        for frame in FRAME.finditer(thread):
            if is_learners(frame["file"]):
                return f"\n  {place(frame['file'], int(frame['line']), frame['function'])}"
    return ""
