"""From an exception, or the death of a process, to words for the learner."""

import linecache
import re
import signal
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from mini_vllm.lineup import CHECKOUT

NOT_WRITTEN = re.compile(r"Phase \d, tasks? \d")
FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)
SIGNATURE_WORDS = re.compile(r"(?P<name>[\w.]+)\(\) (takes|missing|got|needs)")


def shown_path(path: Path) -> str:
    """Return a path as the learner knows it: relative to the checkout."""
    return path.relative_to(CHECKOUT).as_posix() if path.is_relative_to(CHECKOUT) else str(path)


def is_not_written(error: BaseException) -> bool:
    """Return whether the exception is the one that an untouched starter raises."""
    return isinstance(error, NotImplementedError) and NOT_WRITTEN.match(str(error)) is not None


def explain(error: BaseException, names: Mapping[str, str]) -> str:
    """Return what an exception in a graded test means. `names` are the phase's names with their parameters."""
    kind, text = type(error).__name__, said_by(error)
    notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", []))
    if is_not_written(error):
        return f"Not written yet: {text}"
    if isinstance(error, RecursionError):
        return f"The calls never came to an end (RecursionError).\n  {place_in(error)}"
    if isinstance(error, SystemExit):
        return f"Your code ended the program ({kind}: {text}).\n  {place_in(error)}{notes}"
    if isinstance(error, EOFError) and "input" in place_in(error):
        return f"Your code waits for input; nobody is there to type it.\n  {place_in(error)}"
    lines = [f"{kind}: {text}" if text else kind]
    if missing := missing_name(error):
        return f"{missing} is missing from starter.py.{notes}"
    if place := place_in(error):
        lines.append(f"  {place}")
    else:
        lines.append(f"  raised outside your file, with what your code gave back: {last_place(error)}")
    if isinstance(error, TypeError) and (found := SIGNATURE_WORDS.match(text)):
        matches = [name for name in names if name == found["name"] or name.endswith(f".{found['name']}")]
        lines += [f"  expected: {name}{names[name]}" for name in matches]
    return "\n".join(lines) + notes


def said_by(error: BaseException) -> str:
    """Return the exception's text, even if it cannot say it."""
    try:
        return str(error)
    except Exception as other:
        return f"(its text cannot be shown: {type(other).__name__})"


def missing_name(error: BaseException) -> str:
    """Return the name that the learner's module or class should have and has not; empty if it is not that."""
    if not isinstance(error, AttributeError) or place_in(error):
        return ""
    owner = error.obj
    if isinstance(owner, ModuleType) and is_learners(owner.__file__ or ""):
        return str(error.name)
    kind = owner if isinstance(owner, type) else type(owner)
    return f"{kind.__name__}.{error.name}" if kind.__module__.endswith(".starter") else ""


def is_learners(file: str) -> bool:
    """Return whether a file is one of those that the learner fills in."""
    path = Path(file)
    return path.name == "starter.py" and path.parent.parent == CHECKOUT / "labs"


def place_in(error: BaseException) -> str:
    """Return the last place in the learner's files that the exception came through; empty if none."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_learners(frame.filename)]
    return place(frames[-1].filename, frames[-1].lineno or 0, frames[-1].name) if frames else ""


def last_place(error: BaseException) -> str:
    """Return the line that raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"`{frames[-1].line}`" if frames else "nowhere"


def place(file: str, line: int, function: str) -> str:
    """Return a line of a learner's file in words."""
    source = linecache.getline(file, line).strip()
    inside = "" if function == "<module>" else f", in {function}"
    return f"{Path(file).parent.name}/starter.py, line {line}{inside}" + (f": {source}" if source else "")


def explain_death(status: int | None, trace: str, seconds: float) -> tuple[str, str]:
    """Return (outcome, words) for a process that is gone without an answer. `status` None: it had to be killed."""
    where = _place_in_trace(trace)
    if status is None or trace.startswith("Timeout"):
        return "timeout", f"No answer within {seconds:g} seconds. Your code was still busy.{where}"
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
        for frame in FRAME.finditer(thread):
            if is_learners(frame["file"]):
                return f"\n  {place(frame['file'], int(frame['line']), frame['function'])}"
    return ""
