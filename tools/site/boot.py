"""The course inside of a browser's kernel. IPython's configuration, in the same wheel, calls `boot` when one starts.

The course itself lies in the kernel's memory, where imports are quick. What a learner edits lies on the drive, that is
in the browser's storage: before every cell the starters that differ are copied from there into the course.
"""

import sys
import zipfile
from pathlib import Path

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

    sys.dont_write_bytecode = True  # two edits within a second would find the older bytecode
    with zipfile.ZipFile(Path(__file__).with_name("mini_vllm_course.zip")) as archive:
        archive.extractall(COURSE)
    sys.path.insert(0, str(COURSE))
    shell = get_ipython()
    assert shell is not None
    shell.events.register("pre_run_cell", lambda info: before_cell())


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
