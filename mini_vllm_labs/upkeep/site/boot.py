"""Sets up the course in a browser's kernel. IPython's configuration, which is in the same wheel, calls `boot` when
IPython starts.

The course is stored in the kernel's memory, where imports are fast. A learner's edits are stored on the drive, which is
the browser's storage. Before every cell, changed starters are copied from the drive into the course.

There is no shell here, but the handouts' commands work unchanged as lines in a cell.
"""

import concurrent.futures
import contextlib
import os
import re
import shlex
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

COURSE = Path("/home/pyodide/course")
DRIVE = Path("/drive")
STARTERS = "labs/phase*/starter.py"
NO_DRIVE = (
    "WARNING: this browser gives the lab no storage (a private window?). Your edits do not reach your engine and are "
    "lost with the tab. Open the lab in an ordinary window."
)
COMMAND = re.compile(r"(?:LAB_IMPL=\S+ )?(?:pytest|mini-vllm|make|pip|python)(?: [^=(].*)?\s*")
BESIDE_COMMANDS = re.compile(r"\s*(?:#.*)?\s*")
TESTS = re.compile(r"(?:LAB_IMPL=starter )?pytest labs/phase(?!6_)(\d+)_\w+(?: -m task\d+_(\d))?")
RUN_HERE = ("hint", "trace")  # these do not need a second process
ELSEWHERE = (
    "A browser's tab cannot run `{}`: it needs a local installation (the website's page `Install it`). What runs in a "
    "cell here: pytest with a phase's folder and -m taskN_N, mini-vllm hint, mini-vllm trace. "
    "lab.talk(...) chats with the model."
)


def boot() -> None:
    """Unpack the course, put it first on the path, and copy the learner's files before every cell."""
    from IPython.core.getipython import get_ipython

    unpack()
    shell = get_ipython()
    assert shell is not None
    shell.events.register("pre_run_cell", lambda info: before_cell())
    shell.input_transformers_cleanup.append(commands_marked)
    shell.system = run_command  # type: ignore[method-assign]


def unpack(course: Path = COURSE, drive: Path = DRIVE) -> None:
    """Put the course where Python finds it first. Files that the course's notebooks write go to the drive."""
    sys.dont_write_bytecode = True  # after two edits within a second, the old bytecode would seem up to date
    with zipfile.ZipFile(Path(__file__).with_name("mini_vllm_course.zip")) as archive:
        archive.extractall(course)
    (course / "notebooks").symlink_to(drive / "notebooks")
    sys.path.insert(0, str(course))
    vars(concurrent.futures)["ThreadPoolExecutor"] = ExecutorHere
    os._exit = ended  # the original would stop the kernel and lose everything on the page


class ExecutorHere(concurrent.futures.Executor):
    """Computes immediately in the calling thread, which is the browser's only thread.

    The course does not depend on thread order.
    """

    def __init__(self, max_workers: int | None = None, thread_name_prefix: str = "") -> None:
        pass

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        future = concurrent.futures.Future[Any]()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


def ended(status: int) -> NoReturn:
    raise SystemExit(f"os._exit({status})")


def commands_marked(lines: list[str]) -> list[str]:
    """If a cell contains only comments and commands from the handouts, put `!` before each command."""
    is_shell = all(COMMAND.fullmatch(line) or BESIDE_COMMANDS.fullmatch(line) for line in lines)
    return [f"!{line}" if is_shell and COMMAND.fullmatch(line) else line for line in lines]


def run_command(line: str) -> None:
    """Run a handout's command in this process, or print where it can be run. IPython calls this function for lines with
    `!`."""
    from mini_vllm_labs.notebook import Lab
    from mini_vllm_labs.pictures.terminal.lazy_commands import load

    if tests := TESTS.fullmatch(line.strip()):
        print(Lab(int(tests[1])).test(int(tests[2]) if tests[2] else None).text)
    elif (words := shlex.split(line, comments=True))[:1] == ["mini-vllm"] and words[1:2] and words[1] in RUN_HERE:
        try:
            with contextlib.chdir(COURSE):
                load(words[1], f"mini_vllm_labs.cli.{words[1]}:{words[1]}").main(
                    words[2:], prog_name=" ".join(words[:2])
                )
        except SystemExit:  # the error has already been printed
            pass
    else:
        print(ELSEWHERE.format(line.strip()))


def before_cell() -> None:
    if not (DRIVE / "labs").is_dir():
        print(NO_DRIVE, file=sys.stderr)
    bring_edits()


def bring_edits(course: Path = COURSE, drive: Path = DRIVE) -> list[str]:
    """Copy the learner's starters into the course, and return the names of those that had changed."""
    changed = []
    for starter in sorted(course.glob(STARTERS)):
        name = starter.relative_to(course)
        try:
            yours = (drive / name).read_bytes()
        except OSError:  # there is no drive, or the learner has moved the file
            continue
        if yours != starter.read_bytes():
            starter.write_bytes(yours)
            changed.append(name.as_posix())
    return changed
