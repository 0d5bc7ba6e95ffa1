"""A submission: at most one file per phase, read from an untrusted folder or zip."""

import os
import re
import stat
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

MOST_FILE_BYTES = 2**20
MOST_ENTRIES = 20_000
MOST_ARCHIVE_BYTES = 200 * 2**20
IN_FOLDER = re.compile(r"phase_?([1-6])(?:_\w+)?")
BY_NAME = re.compile(r"(?:phase|starter)_?([1-6])\w*\.py")
PASSED_OVER = {"__MACOSX", "__pycache__", ".git", ".ipynb_checkpoints", ".venv", "venv", "node_modules", "tests"}
Starter = tuple[int, PurePosixPath, bytes]


class SubmissionError(ValueError):
    """The submission cannot be read safely."""


@dataclass(frozen=True)
class Submission:
    """One learner's files, phase to content. `error`: why no file was read."""

    name: str
    starters: dict[int, bytes] = field(default_factory=dict)
    error: str = ""


def read_submissions(paths: Iterable[Path]) -> list[Submission]:
    """Read all submissions; those of the same name are prefixed with their folders' names."""
    paths = list(paths)
    stems = [path.stem if path.suffix == ".zip" else path.name or path.resolve().name for path in paths]
    names = [
        stem if stems.count(stem) == 1 else f"{path.resolve().parent.name}_{stem}"
        for path, stem in zip(paths, stems, strict=True)
    ]
    if doubles := sorted({name for name in names if names.count(name) > 1}):
        raise SubmissionError(f"several submissions are called {', '.join(doubles)}: rename them")
    return [read_submission(path, printable(name)) for path, name in zip(paths, names, strict=True)]


def read_submission(path: Path, name: str) -> Submission:
    """Read a folder with `labs/`, a folder of starters, or a zip of either. Never raises for what is in it."""
    try:
        found = list(files_of_zip(path) if path.is_file() else files_of_folder(path))
        return Submission(name, one_per_phase(found))
    except SubmissionError as error:
        return Submission(name, error=str(error))
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError) as error:
        return Submission(name, error=f"{path.name} cannot be read: {error}")


def phase_of(path: PurePosixPath) -> int | None:
    """Return the phase whose starter a path is: `.../phase3_x/starter.py`, `phase3_x.py`, `starter3.py`."""
    if PASSED_OVER & set(path.parts):
        return None
    if path.name == "starter.py" and len(path.parts) > 1 and (found := IN_FOLDER.fullmatch(path.parts[-2])):
        return int(found[1])
    found = BY_NAME.fullmatch(path.name)
    return int(found[1]) if found else None


def one_per_phase(found: Iterable[Starter]) -> dict[int, bytes]:
    """Return phase to content. Raises `SubmissionError` if there is none, or two of a phase."""
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


def files_of_folder(folder: Path) -> Iterator[Starter]:
    """Yield the starters in a folder. Links are refused, not followed."""
    if not folder.is_dir():
        raise SubmissionError(f"{folder} is neither a folder nor a zip file")
    num_entries = 0
    for parent, folders, files in os.walk(folder, followlinks=False):
        folders[:] = sorted(set(folders) - PASSED_OVER)
        num_entries += len(files)
        if num_entries > MOST_ENTRIES:
            raise SubmissionError(f"there are more than {MOST_ENTRIES:,} files in it")
        for name in sorted(files):
            path = Path(parent, name)
            inner = PurePosixPath(path.relative_to(folder).as_posix())
            phase = phase_of(PurePosixPath(folder.resolve().name) / inner)
            if phase is not None:
                yield phase, inner, read_file(path, printable(str(inner)))


def read_file(path: Path, shown: str) -> bytes:
    """Read an ordinary file of ordinary size. Raises `SubmissionError` if it is a link or a device."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise SubmissionError(f"{shown} is a link or cannot be opened ({error.strerror}): hand in the file") from None
    with os.fdopen(handle, "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
            raise SubmissionError(f"{shown} is not an ordinary file, or has another hard link")
        return limited(file.read(MOST_FILE_BYTES + 1), shown)


def files_of_zip(path: Path) -> Iterator[Starter]:
    """Yield the starters in a zip. Nothing is unpacked to disk, and nothing else is unpacked at all."""
    if path.stat().st_size > MOST_ARCHIVE_BYTES:
        raise SubmissionError(f"the zip is larger than {MOST_ARCHIVE_BYTES >> 20} MiB")
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        if len(entries) > MOST_ENTRIES:
            raise SubmissionError(f"there are more than {MOST_ENTRIES:,} files in the zip")
        for entry in entries:
            inner = PurePosixPath(entry.filename.replace("\\", "/"))
            if inner.is_absolute() or ".." in inner.parts or re.match(r"[A-Za-z]:", entry.filename):
                raise SubmissionError(f"the zip has a path that leads out of it: {printable(entry.filename)}")
            phase = phase_of(inner)
            if entry.is_dir() or phase is None:
                continue
            if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
                raise SubmissionError(f"{printable(str(inner))} is a link: hand in the file")
            if entry.flag_bits & 1:
                raise SubmissionError("the zip has a password")
            with archive.open(entry) as file:
                yield phase, inner, limited(file.read(MOST_FILE_BYTES + 1), printable(str(inner)))


def limited(content: bytes, shown: str) -> bytes:
    """Return the content. Raises `SubmissionError` if it is too long."""
    if len(content) > MOST_FILE_BYTES:
        raise SubmissionError(f"{shown} is larger than {MOST_FILE_BYTES >> 20} MiB")
    return content


def printable(text: str) -> str:
    """Return a text without control characters, for tables and terminals."""
    return "".join(char if char.isprintable() else "?" for char in text)[:200]
