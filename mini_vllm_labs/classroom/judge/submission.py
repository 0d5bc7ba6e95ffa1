"""A submission: at most one file per phase, read from an untrusted file, folder or archive."""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from mini_vllm_labs.classroom.judge.archives import (
    IGNORED,
    MAX_ENTRIES,
    MAX_FILE_BYTES,
    Starter,
    SubmissionError,
    files_of_archive,
    limited,
    one_per_phase,
    phase_of,
    told_by_name,
)
from mini_vllm_labs.classroom.worker.text import one_line, printable

ENDINGS = re.compile(r"\.(zip|tar\.gz|tgz|py)$", re.IGNORECASE)


@dataclass(frozen=True)
class Submission:
    """One learner's files, as a mapping from phase to content. `error` states why no file was read; `notes` are for the
    learner."""

    name: str
    starters: dict[int, bytes] = field(default_factory=dict)
    error: str = ""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class HandedIn:
    """A file, folder or archive that has not been read yet, with the learner's name as shown in all tables."""

    name: str
    path: Path


def name_submissions(paths: Iterable[Path]) -> list[HandedIn]:
    """Name submissions after their files or folders; where names clash, prefix them with their folders' names.

    Raises `SubmissionError` if two names still clash.
    """
    paths = list(paths)
    stems = [ENDINGS.sub("", path.name or path.resolve().name) for path in paths]
    names = [
        one_line(stem if stems.count(stem) == 1 else f"{path.resolve().parent.name}_{stem}")
        for path, stem in zip(paths, stems, strict=True)
    ]
    if doubles := sorted({name for name in names if names.count(name) > 1}):
        raise SubmissionError(f"several submissions are named {', '.join(doubles)}: rename them")
    return [HandedIn(name, path) for name, path in zip(names, paths, strict=True)]


def read_submission(path: Path, name: str) -> Submission:
    """Read a starter, a folder or an archive. Bad content is reported in `error`; only `TimeoutError` is raised."""
    try:
        starters, notes = one_per_phase(files_of(path))
        return Submission(name, starters, notes=list(map(printable, notes)))
    except TimeoutError:
        raise  # the file is not to blame
    except SubmissionError as error:
        return Submission(name, error=printable(str(error)))
    except Exception as error:  # archive readers raise various errors for damaged files
        return Submission(name, error=printable(f"{path.name} cannot be read: {error or type(error).__name__}"))


def files_of(path: Path) -> Iterator[Starter]:
    if path.is_dir():
        yield from files_of_folder(path)
    elif path.suffix.lower() == ".py":
        phase = phase_of(PurePosixPath(path.resolve().parent.name) / path.name) or 0
        yield phase, PurePosixPath(path.name), read_file(path, path.name)
    else:
        yield from files_of_archive(path)


def files_of_folder(folder: Path) -> Iterator[Starter]:
    """Yield the starters in a folder. Links are rejected instead of followed."""
    num_entries = 0
    for parent, folders, files in os.walk(folder, followlinks=False):
        folders[:] = sorted(set(folders) - IGNORED)
        num_entries += len(files)
        if num_entries > MAX_ENTRIES:
            raise SubmissionError(f"there are more than {MAX_ENTRIES:,} files in the folder")
        for name in sorted(files):
            path = Path(parent, name)
            inner = PurePosixPath(path.relative_to(folder).as_posix())
            phase = phase_of(PurePosixPath(folder.resolve().name) / inner)
            if phase is not None:
                yield phase, inner, read_file(path, str(inner))
            elif other := told_by_name(inner):
                yield other


def read_file(path: Path, shown: str) -> bytes:
    """Read a regular file of ordinary size. Raises `SubmissionError` if it is a link or a device."""
    shown = one_line(shown)
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if isinstance(error, TimeoutError):
            raise
        raise SubmissionError(
            f"{shown} is a link or cannot be opened ({error.strerror}): hand in the file itself"
        ) from None
    with os.fdopen(handle, "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
            raise SubmissionError(f"{shown} is not a regular file, or has another hard link")
        return limited(file.read(MAX_FILE_BYTES + 1), shown)
