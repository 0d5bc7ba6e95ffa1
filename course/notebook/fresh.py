"""Run a function in a new Python process, so that what the learner saved a second ago is what runs.

A process also survives what would cost a notebook its kernel: endless loops, `sys.exit`, memory without end.
"""

import contextlib
import pickle
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from course.sandbox.explain import explain, explain_death, is_not_written, place_in
from mini_vllm.engine.llm_engine import StalledError
from mini_vllm.seams.lineup import CHECKOUT

T = TypeVar("T")
SECONDS = 120.0
LONGEST_OUTPUT = 20_000


class FreshError(Exception):
    """What ended the function, in words. `unwritten` if it was a task that is still to be done."""

    def __init__(self, text: str, *, unwritten: bool = False) -> None:
        super().__init__(text)
        self.unwritten = unwritten


@dataclass(frozen=True)
class Ending:
    """How the function ended: with a value, or with words about what stopped it."""

    value: Any = None
    problem: str = ""
    unwritten: bool = False


def in_fresh_process(function: Callable[..., T], *arguments: object, seconds: float = SECONDS) -> T:
    """Return `function(*arguments)`, computed in a new process; what it prints appears here.

    `function` must be importable by its name. Raises `FreshError` in words that a learner can use if it raises,
    if it takes longer than `seconds`, or if the process dies.
    """
    with tempfile.TemporaryDirectory() as folder:
        order, answer = Path(folder, "order"), Path(folder, "answer")
        order.write_bytes(pickle.dumps((function, arguments)))
        command = [sys.executable, "-X", "faulthandler", "-m", "course.notebook", str(order), str(answer)]
        with tempfile.TemporaryFile() as printed:
            status = _wait(command, printed, seconds)
            _repeat(printed)
        if not answer.exists():
            raise FreshError(explain_death(status, "", seconds)[1])
        ending: Ending = pickle.loads(answer.read_bytes())
    if ending.problem:
        raise FreshError(ending.problem, unwritten=ending.unwritten)
    value: T = ending.value
    return value


def _wait(command: list[str], printed: Any, seconds: float) -> int | None:
    """Return the exit status of the command, None if it had to be killed."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run(command, cwd=CHECKOUT, stdout=printed, stderr=printed, timeout=seconds).returncode
    return None


def _repeat(printed: Any) -> None:
    """Print what the process printed, the beginning of it if it is a flood."""
    printed.seek(0)
    text = printed.read(LONGEST_OUTPUT).decode(errors="replace")
    if text:
        print(text, end="" if text.endswith("\n") else "\n")
    if printed.read(1):
        print("... and more, which is left out")


def answer_order(order: Path, answer: Path) -> None:
    """Do what is asked in the file `order`, and write an `Ending` to the file `answer`."""
    function, arguments = pickle.loads(order.read_bytes())
    try:
        ending = Ending(function(*arguments))
    except (Exception, SystemExit) as error:
        ending = Ending(problem=in_words(error), unwritten=is_not_written(error))
    answer.write_bytes(pickle.dumps(ending))


def in_words(error: BaseException) -> str:
    """Return what an exception means. Only one that did not come through the learner's file has a traceback."""
    if isinstance(error, StalledError | ValueError) and not place_in(error):
        return str(error)
    if place_in(error) or isinstance(error, SystemExit | RecursionError):
        return explain(error, {})
    return "".join(traceback.format_exception(error))
