"""Which file of a submission is the starter of which phase, and the limits on reading it."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from classroom.worker.text import one_line
from mini_vllm.assembly.lineup import ALL_NAMES

MAX_FILE_BYTES = 2**20
MAX_ENTRIES = 20_000
NUMBERS = "|".join(map(str, range(1, len(ALL_NAMES) + 1)))
PHASE = rf"phase[_ -]?({NUMBERS})(?![0-9])"
IN_FOLDER = re.compile(rf"{PHASE}(?:[_ -]\w+)?")
# `phase1.py`, `starter1.py`, `alice_phase1.py`, `phase1_scheduler_step-2.py`: names that editors, browsers and
# learning platforms produce.
BY_NAME = re.compile(rf"(?:.*[_ .-])?(?:{PHASE}|starter[_ -]?({NUMBERS})(?![0-9]))[\w ().-]*\.py")
IGNORED = {"__MACOSX", "__pycache__", ".git", ".ipynb_checkpoints", ".venv", "venv", "node_modules", "tests"}
Starter = tuple[int, PurePosixPath, bytes]


class SubmissionError(ValueError):
    """The submission cannot be read safely."""


def phase_of(path: PurePosixPath) -> int | None:
    """Return the phase whose starter a path is: `.../phase3_x/starter.py`, `phase3_x.py`, `ada_starter3.py`."""
    if IGNORED & set(path.parts) or path.name.startswith(("test_", "optional_", "._")):
        return None
    if path.name == "starter.py" and len(path.parts) > 1 and (found := IN_FOLDER.fullmatch(path.parts[-2])):
        return int(found[1])
    named = BY_NAME.fullmatch(path.name)
    return int(named[1] or named[2]) if named else None


def one_per_phase(found: Iterable[Starter]) -> dict[int, bytes]:
    """Return phase to content, and stop at the second file of a phase.

    Raises `SubmissionError` if there is none, or two of a phase.
    """
    paths: dict[int, PurePosixPath] = {}
    starters: dict[int, bytes] = {}
    for phase, path, content in found:
        if phase in paths:
            raise SubmissionError(f"there are two files for phase {phase}: {paths[phase]} and {path}")
        paths[phase], starters[phase] = path, content
    if not starters:
        raise SubmissionError(
            "it contains no starter: expected labs/phase1_scheduler_step/starter.py and so on, or phase1.py ..."
        )
    return dict(sorted(starters.items()))


def limited(content: bytes, shown: str) -> bytes:
    """Return the content. Raises `SubmissionError` if it is too long."""
    if len(content) > MAX_FILE_BYTES:
        raise SubmissionError(f"{one_line(shown)} is larger than {MAX_FILE_BYTES >> 20} MiB")
    return content


def require_inside(name: str) -> PurePosixPath:
    """Return the path of an archive's entry. Raises `SubmissionError` if it leads out of the archive."""
    inner = PurePosixPath(name.replace("\\", "/"))
    if inner.is_absolute() or ".." in inner.parts or re.match(r"[A-Za-z]:", name):
        raise SubmissionError(f"the archive has a path that leads out of it: {one_line(name)}")
    return inner
