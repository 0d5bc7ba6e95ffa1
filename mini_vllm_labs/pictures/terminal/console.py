"""Prints the commands' output, with one console, one palette, and errors without tracebacks."""

import functools
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.style import Style

from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.parts import solutions_exist
from mini_vllm.core.invariants import InvariantError
from mini_vllm.engine.errors import EngineDeadError, RunnerError, StalledError
from mini_vllm_labs.runs.palette import color, ink_on
from mini_vllm_labs.runs.sandbox.errors import OutOfTime
from mini_vllm_labs.runs.sandbox.explain import explain
from mini_vllm_labs.runs.sandbox.frames import is_learners
from mini_vllm_labs.runs.sandbox.time_limit import limited_calls
from mini_vllm_labs.runs.starter_status import describe, written_lineup

P = ParamSpec("P")
R = TypeVar("R")


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that emits escape codes only in a terminal."""
    # FORCE_COLOR and similar variables must not send escape codes into a pipe.
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, force_terminal=None if stream.isatty() else False)


def is_live(console: Console) -> bool:
    """Return whether output can be redrawn in place."""
    return console.is_terminal and not console.is_dumb_terminal


def chip_style(index: int) -> Style:
    """Return a style with a request's colour as background and legible text."""
    return Style(color=ink_on(index), bgcolor=color(index), bold=True)


def ink_style(index: int) -> Style:
    """Return a style with a request's colour as foreground."""
    return Style(color=color(index))


def whose_code(lineup: Lineup) -> str:
    """Describe whose code runs in each phase, in lines of at most 80 columns."""
    lines = ["Whose code runs:"]
    for item in describe(lineup).split(", "):
        if len(lines[-1]) + len(item) > 77:
            lines.append("   ")
        lines[-1] += ("," if lines[-1][-1] not in ": " else "") + f" {item}"
    return "\n".join(lines)


def fail(message: str, code: int) -> NoReturn:
    """Print `message` in red on stderr and exit the program with `code`."""
    console = make_console(stderr=True)
    console.print("error: ", style="bold red", end="")
    console.print(message, markup=False, soft_wrap=True)
    raise typer.Exit(code)


def friendly(command: Callable[P, R]) -> Callable[P, R]:
    """Make a command print user-fixable errors as messages.

    Invalid values end the command with status 2, and a stalled or failed engine ends it with status 1. An exception
    from a learner's file exits with status 1 and prints the traceback from that file onwards, without our frames. An
    endless call into a learner's file is stopped, and a message explains it.
    """

    @functools.wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with limited_calls():
                return command(*args, **kwargs)
        except OutOfTime as error:
            fail(f"{explain(error, {})}\n(A call into your code may take {error.seconds:g} seconds of CPU time.)", 1)
        except NotImplementedError as error:
            fail(f"{error}: not written yet. {what_to_do()}", 1)
        except (StalledError, RunnerError, InvariantError, EngineDeadError) as error:
            fail(str(error), 1)
        except SyntaxError as error:
            if not is_learners(error.filename or ""):
                raise
            fail(f"your file cannot be read\n{''.join(traceback.format_exception_only(error)).rstrip()}", 1)
        except Exception as error:
            if trace := traceback_from_labs(error):
                fail(f"your code raised {type(error).__name__}\n{trace}", 1)
            if isinstance(error, ValueError):
                fail(str(error), 2)
            if isinstance(error, OSError) and error.filename is not None:
                fail(f"{error.filename} cannot be read or written: {error.strerror}", 2)
            if isinstance(error, BlockingIOError) or "can't start new thread" in str(error):
                fail(f"this system lets no further process or thread start ({error}): see `ulimit -u`", 1)
            raise

    return guarded


def what_to_do() -> str:
    """Return advice about an unwritten task, for example to use a lineup that contains only written phases."""
    if solutions_exist():
        return (
            "Write it, or choose a lineup: starter for what you have written, solution for the rest, as in --lineup "
            "starter:1,solution:2-5."
        )
    written = written_lineup()
    if written is None:
        return "Phase 1 comes first: it decides every step. Until it is there, trace --read shows recorded runs."
    return f"Write it, or choose a lineup of the phases that you have written: --lineup {written}."


def traceback_from_labs(error: Exception) -> str | None:
    """Return the traceback, starting at the first frame under `labs/`, or None if there is no such frame.

    An error raised in an engine's process carries that process's frames in `remote_frames`.
    """
    frames = [*traceback.extract_tb(error.__traceback__), *getattr(error, "remote_frames", [])]
    mine = ["/labs/" in frame.filename.replace("\\", "/") for frame in frames]
    if not any(mine) or (isinstance(error, ValueError) and not mine[-1]):
        return None
    lines = traceback.format_list(frames[mine.index(True) :]) + traceback.format_exception_only(error)
    return "".join(lines).rstrip()
