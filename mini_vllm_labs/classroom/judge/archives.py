"""Reads starters from an untrusted zip or tar within limits, and determines the phase of each.

Only starters are unpacked, and only in memory.
"""

import io
import os
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO

from mini_vllm_labs.classroom.worker.text import one_line
from mini_vllm_labs.runs.starter_status import LABS, phase_in, starter_path

MAX_FILE_BYTES = 2**20
MAX_ENTRIES = 20_000
NUM_SHOWN = 3
NUMBERS = "|".join(map(str, LABS))
PHASE = rf"phase[_ -]?0?({NUMBERS})(?![0-9])"
IN_FOLDER = re.compile(rf"{PHASE}(?:[_ -]\w+)?", re.IGNORECASE)
# `phase1.py`, `starter1.py`, `alice_phase1.py`, `phase1_scheduler_step-2.py`: names produced by editors, browsers and
# learning platforms. They also number the copies: the 1 in `starter-1.py` or `starter (1).py` is not a phase number.
BY_NAME = re.compile(rf"(?:.*[_ .-])?(?:{PHASE}|starter0?({NUMBERS})(?![0-9]))[\w ().-]*\.py", re.IGNORECASE)
COUNTER = r"[ _.-]*(?:\(\d+\)|v?\d+|copy|kopie|final|new)"
STARTER = re.compile(rf"(?:.*[_ .-])?starter(?!\d)(?:{COUNTER})*\.py", re.IGNORECASE)
LOOKS_LIKE_ONE = re.compile(r"phase|starter|\.(py|ipynb)$", re.IGNORECASE)
DEFINED = re.compile(rb"^(?:async +)?(?:def|class) +(\w+)", re.MULTILINE)
IGNORED = {"__MACOSX", "__pycache__", ".git", ".ipynb_checkpoints", ".venv", "venv", "node_modules", "tests"}
# (phase, path, content): phase 0 means that the content determines the phase. A content of None means that only the
# name was checked.
Starter = tuple[int, PurePosixPath, bytes | None]


class SubmissionError(ValueError):
    """The submission cannot be read safely."""


def phase_of(path: PurePosixPath) -> int | None:
    """Return the phase of a starter's path: `.../phase3_x/starter.py`, `phase3_x.py`, `ada_starter3.py`.

    Return 0 for `starter.py` or `starter-1.py` without a phase, None for other files.
    """
    if IGNORED & set(path.parts) or path.name.startswith(("test_", "optional_", "._")):
        return None
    is_starter = STARTER.fullmatch(path.name)
    if is_starter and len(path.parts) > 1:
        found = IN_FOLDER.fullmatch(path.parts[-2])
        if phase := int(found[1]) if found else phase_in(path.parts[-2]):
            return phase
    named = BY_NAME.fullmatch(path.name)
    return int(named[1] or named[2]) if named else 0 if is_starter else None


def told_by_name(path: PurePosixPath) -> Starter | None:
    """Return a file without its content if its name suggests that a learner wanted it graded."""
    is_ignored = IGNORED & set(path.parts) or path.name.startswith(("test_", "optional_", "._", "conftest"))
    return (0, path, None) if LOOKS_LIKE_ONE.search(path.name) and not is_ignored else None


@cache
def names_by_phase() -> dict[int, set[bytes]]:
    """Return, for each phase, the functions and classes that only its starter defines."""
    names = {phase: set(DEFINED.findall(starter_path(phase).read_bytes())) for phase in LABS}
    return {
        phase: own - set().union(*(other for number, other in names.items() if number != phase))
        for phase, own in names.items()
    }


def phase_of_content(content: bytes) -> int:
    """Return the phase whose functions and classes a file defines; 0 if there are none or several."""
    defined = set(DEFINED.findall(content))
    phases = [phase for phase, names in names_by_phase().items() if names & defined]
    return phases[0] if len(phases) == 1 else 0


def one_per_phase(found: Iterable[Starter]) -> tuple[dict[int, bytes], list[str]]:
    """Return each phase's content, and notes on file names; stop at a second file for the same phase.

    Raises `SubmissionError` if there is no starter, or if a phase has two.
    """
    paths: dict[int, PurePosixPath] = {}
    starters: dict[int, bytes] = {}
    notes: list[str] = []
    others: list[str] = []
    for named, path, content in found:
        phase = named if content is None else named or phase_of_content(content)
        if not phase or content is None:
            others.append(one_line(str(path)))
            continue
        if phase in paths:
            raise SubmissionError(f"there are two files for phase {phase}: {paths[phase]} and {path}")
        paths[phase], starters[phase] = path, content
        if not named:
            notes.append(f"{one_line(str(path))} does not name its phase; its functions belong to phase {phase}.")
    if not starters:
        names = f" (only {', '.join(others[:NUM_SHOWN])})" if others else ""
        raise SubmissionError(
            f"the submission contains no starter{names}: call it phase1.py, phase2.py ..., or hand in labs/"
        )
    return dict(sorted(starters.items())), notes


def limited(content: bytes, shown: str) -> bytes:
    """Return the content unchanged. Raises `SubmissionError` if the content is too long."""
    if len(content) > MAX_FILE_BYTES:
        raise SubmissionError(f"{one_line(shown)} is larger than {MAX_FILE_BYTES >> 20} MiB")
    return content


def require_inside(name: str) -> PurePosixPath:
    """Return the path of an archive's entry. Raises `SubmissionError` if the path points outside the archive."""
    inner = PurePosixPath(name.replace("\\", "/"))
    if inner.is_absolute() or ".." in inner.parts or re.match(r"[A-Za-z]:", name):
        raise SubmissionError(f"the archive contains a path that points outside it: {one_line(name)}")
    return inner


MAX_ARCHIVE_BYTES = 200 * 2**20
MAX_DIRECTORY_BYTES = 8 * 2**20
MAX_TAR_BYTES = 200 * 2**20
# Other methods unpack a block of any size in a single call, so a thousand-byte zip could need gigabytes.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
LOCATOR_64, NUM_LOCATOR_BYTES = b"PK\x06\x07", 20
END_OF_DIRECTORY_64, NUM_END_64_BYTES = b"PK\x06\x06", 56
END_OF_DIRECTORY, NUM_END_BYTES, MAX_COMMENT_BYTES = b"PK\x05\x06", 22, 2**16


def files_of_archive(path: Path) -> Iterator[Starter]:
    """Yield the starters in a zip or a gzipped tar, which is recognised by its first bytes."""
    if not path.is_file():
        raise SubmissionError(f"{one_line(str(path))} is not a folder, a zip, a .tar.gz or a starter")
    if path.stat().st_size > MAX_ARCHIVE_BYTES:
        raise SubmissionError(f"the archive is larger than {MAX_ARCHIVE_BYTES >> 20} MiB")
    with path.open("rb") as file:
        return files_of_tar(path) if file.read(2) == b"\x1f\x8b" else files_of_zip(path)


def files_of_zip(path: Path) -> Iterator[Starter]:
    """Yield the starters in a zip. Raises `SubmissionError`, or one of `zipfile`'s own errors if the file is
    damaged."""
    require_short_directory(path)
    with zipfile.ZipFile(path) as archive:
        for entry in entries_of(archive):
            inner = require_inside(entry.filename)
            phase = phase_of(inner)
            if entry.is_dir() or phase is None:
                yield from filter(None, [None if entry.is_dir() else told_by_name(inner)])
                continue
            shown = one_line(str(inner))
            if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
                raise SubmissionError(f"{shown} is a link: hand in the file itself")
            if entry.flag_bits & 1:
                raise SubmissionError("the zip is password-protected")
            if entry.compress_type not in METHODS:
                raise SubmissionError(
                    f"{shown} is compressed with a method other than deflate: create the zip again with deflate"
                )
            with archive.open(entry) as file:
                yield phase, inner, limited(file.read(MAX_FILE_BYTES + 1), shown)


def require_short_directory(path: Path) -> None:
    """Raise `SubmissionError` if a zip lists too many files, because `zipfile` keeps the whole list."""
    with path.open("rb") as file:
        num_tail_bytes = NUM_END_64_BYTES + NUM_LOCATOR_BYTES + NUM_END_BYTES + MAX_COMMENT_BYTES
        file.seek(max(0, file.seek(0, os.SEEK_END) - num_tail_bytes))
        tail = file.read()
    at = tail.rfind(END_OF_DIRECTORY)
    if at < 0 and is_zip_begun(path):
        raise SubmissionError("the zip is truncated: hand it in again")
    if at < 0 or len(tail) < at + NUM_END_BYTES:
        raise SubmissionError(
            "the file cannot be read: it is not a zip or .tar.gz, and it does not have the name of a starter"
        )
    num_entries, num_bytes = struct.unpack("<HL", tail[at + 10 : at + 16])
    if tail[max(0, at - NUM_LOCATOR_BYTES) : at].startswith(LOCATOR_64):
        # some programs write this record for small zips too
        record = tail[max(0, at - NUM_LOCATOR_BYTES - NUM_END_64_BYTES) : at - NUM_LOCATOR_BYTES]
        if not record.startswith(END_OF_DIRECTORY_64) or len(record) < NUM_END_64_BYTES:
            raise SubmissionError("the end of the zip is damaged: create the zip again")
        num_entries, num_bytes = struct.unpack("<QQ", record[32:48])
    if num_entries > MAX_ENTRIES:  # if that record is missing, 65,535 may also mean "or more"
        raise SubmissionError(f"there are more than {MAX_ENTRIES:,} files in the zip")
    if num_bytes > MAX_DIRECTORY_BYTES:
        raise SubmissionError(f"the zip's list of files is larger than {MAX_DIRECTORY_BYTES >> 20} MiB")


def is_zip_begun(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def entries_of(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return all entries of a zip.

    Raises `SubmissionError` if there are too many, whatever number the zip itself claims to have.
    """
    if len(archive.infolist()) > MAX_ENTRIES:
        raise SubmissionError(f"there are more than {MAX_ENTRIES:,} files in the zip")
    return archive.infolist()


def files_of_tar(path: Path) -> Iterator[Starter]:
    """Yield the starters in a gzipped tar, read once from front to back."""
    with path.open("rb") as packed, tarfile.open(fileobj=(unpacked := Unpacked(packed)), mode="r|") as archive:
        for number, entry in enumerate(archive, start=1):
            archive.members = []  # type: ignore[attr-defined]  # otherwise tarfile keeps every entry
            if number > MAX_ENTRIES:
                raise SubmissionError(f"there are more than {MAX_ENTRIES:,} files in the archive")
            inner = require_inside(entry.name)
            phase = phase_of(inner)
            if entry.isdir() or phase is None:
                yield from filter(None, [None if entry.isdir() else told_by_name(inner)])
                continue
            file = archive.extractfile(entry) if entry.isreg() else None
            if file is None:
                raise SubmissionError(f"{one_line(str(inner))} is a link: hand in the file itself")
            yield phase, inner, limited(file.read(MAX_FILE_BYTES + 1), str(inner))
        while unpacked.read(2**16):
            pass  # reads up to and including the checksum at the end


class Unpacked(io.RawIOBase):
    """Reads a gzip file's content, up to a size limit."""

    def __init__(self, packed: IO[bytes]) -> None:
        super().__init__()
        self._packed = packed
        self._unzip = zlib.decompressobj(wbits=31)
        self._left = MAX_TAR_BYTES

    def read(self, num_bytes: int = -1, /) -> bytes:
        """Return up to `num_bytes` bytes. Raises `SubmissionError` when the total is too long."""
        chunks: list[bytes] = []
        while num_bytes and not self._unzip.eof:
            packed = self._unzip.unconsumed_tail or self._packed.read(2**16)
            if not packed:
                raise SubmissionError("the archive is truncated: hand it in again")
            chunks.append(self._unzip.decompress(packed, num_bytes))
            num_bytes -= len(chunks[-1])
            self._left -= len(chunks[-1])
            if self._left < 0:
                raise SubmissionError(f"the archive unpacks to more than {MAX_TAR_BYTES >> 20} MiB")
        return b"".join(chunks)
