"""The course inside of a browser's kernel. IPython's configuration, in the same wheel, calls `boot` when one starts.

The course itself lies in the kernel's memory, where imports are quick. What a learner edits lies on the drive, that is
in the browser's storage: before every cell the starters that differ are copied from there into the course.
"""

import concurrent.futures
import os
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


def boot() -> None:
    """Unpack the course, put it first on the path, and copy the learner's files before every cell."""
    from IPython.core.getipython import get_ipython

    unpack()
    shell = get_ipython()
    assert shell is not None
    shell.events.register("pre_run_cell", lambda info: before_cell())


def unpack(course: Path = COURSE, drive: Path = DRIVE) -> None:
    """Put the course where Python finds it first. What its notebooks keep goes to the drive."""
    sys.dont_write_bytecode = True  # two edits within a second would find the older bytecode
    with zipfile.ZipFile(Path(__file__).with_name("mini_vllm_course.zip")) as archive:
        archive.extractall(course)
    (course / "notebooks").symlink_to(drive / "notebooks")
    sys.path.insert(0, str(course))
    vars(concurrent.futures)["ThreadPoolExecutor"] = ExecutorHere
    os._exit = ended  # it would end the kernel, and with it all that the page shows


class ExecutorHere(concurrent.futures.Executor):
    """Computes at once, in the thread that asks: a browser has no other. The course depends on no order of threads."""

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


def before_cell() -> None:
    if not (DRIVE / "labs").is_dir():
        print(NO_DRIVE, file=sys.stderr)
    bring_edits()


def bring_edits(course: Path = COURSE, drive: Path = DRIVE) -> list[str]:
    """Copy the learner's starters into the course; return the names of those that differed."""
    changed = []
    for starter in sorted(course.glob(STARTERS)):
        name = starter.relative_to(course)
        try:
            yours = (drive / name).read_bytes()
        except OSError:  # no drive, or the learner has moved the file
            continue
        if yours != starter.read_bytes():
            starter.write_bytes(yours)
            changed.append(name.as_posix())
    return changed
