"""Starters read from an untrusted zip or tar: nothing is unpacked to disk, and nothing else is unpacked at all."""

import io
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from classroom.judge.starters import (
    MAX_ENTRIES,
    MAX_FILE_BYTES,
    Starter,
    SubmissionError,
    limited,
    phase_of,
    require_inside,
)
from classroom.worker.text import one_line

MAX_ARCHIVE_BYTES = 200 * 2**20
MAX_DIRECTORY_BYTES = 8 * 2**20
MAX_TAR_BYTES = 200 * 2**20
# The other methods unpack a block of any size at once: a zip of a thousand bytes then takes gigabytes.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
LOCATOR_64, NUM_LOCATOR_BYTES = b"PK\x06\x07", 20
END_OF_DIRECTORY, NUM_END_BYTES, MAX_COMMENT_BYTES = b"PK\x05\x06", 22, 2**16


def files_of_archive(path: Path) -> Iterator[Starter]:
    """Yield the starters in a zip or a gzipped tar, told apart by their first bytes."""
    if not path.is_file():
        raise SubmissionError(f"{one_line(str(path))} is neither a folder nor a zip, a .tar.gz or a starter")
    if path.stat().st_size > MAX_ARCHIVE_BYTES:
        raise SubmissionError(f"the archive is larger than {MAX_ARCHIVE_BYTES >> 20} MiB")
    with path.open("rb") as file:
        return files_of_tar(path) if file.read(2) == b"\x1f\x8b" else files_of_zip(path)


def files_of_zip(path: Path) -> Iterator[Starter]:
    """Yield the starters in a zip. Raises `SubmissionError`, and what `zipfile` raises for a broken one."""
    require_short_directory(path)
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            inner = require_inside(entry.filename)
            phase = phase_of(inner)
            if entry.is_dir() or phase is None:
                continue
            shown = one_line(str(inner))
            if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
                raise SubmissionError(f"{shown} is a link: hand in the file")
            if entry.flag_bits & 1:
                raise SubmissionError("the zip has a password")
            if entry.compress_type not in METHODS:
                raise SubmissionError(f"{shown} is packed by a method other than deflate: make the zip again")
            with archive.open(entry) as file:
                yield phase, inner, limited(file.read(MAX_FILE_BYTES + 1), shown)


def require_short_directory(path: Path) -> None:
    """Raise `SubmissionError` if a zip lists too many files: `zipfile` would keep the whole list."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - NUM_END_BYTES - MAX_COMMENT_BYTES))
        tail = file.read()
    at = tail.rfind(END_OF_DIRECTORY)
    if at < 0 or len(tail) < at + NUM_END_BYTES:
        raise SubmissionError("it cannot be read: not a zip, not a .tar.gz, and not named like a starter")
    if tail[max(0, at - NUM_LOCATOR_BYTES) : at].startswith(LOCATOR_64):
        raise SubmissionError("the zip is in the format for huge archives: pack only the starters")
    num_entries, num_bytes = struct.unpack("<HL", tail[at + 10 : at + 16])
    if num_entries > MAX_ENTRIES:  # 65,535 stands for more
        raise SubmissionError(f"there are more than {MAX_ENTRIES:,} files in the zip")
    if num_bytes > MAX_DIRECTORY_BYTES:
        raise SubmissionError(f"the zip's list of files is larger than {MAX_DIRECTORY_BYTES >> 20} MiB")


def files_of_tar(path: Path) -> Iterator[Starter]:
    """Yield the starters in a gzipped tar, read once from front to back."""
    with path.open("rb") as packed, tarfile.open(fileobj=Unpacked(packed), mode="r|") as archive:
        for number, entry in enumerate(archive, start=1):
            archive.members = []  # type: ignore[attr-defined]  # otherwise tarfile keeps every entry it has read
            if number > MAX_ENTRIES:
                raise SubmissionError(f"there are more than {MAX_ENTRIES:,} files in the archive")
            inner = require_inside(entry.name)
            phase = phase_of(inner)
            if entry.isdir() or phase is None:
                continue
            file = archive.extractfile(entry) if entry.isreg() else None
            if file is None:
                raise SubmissionError(f"{one_line(str(inner))} is a link: hand in the file")
            yield phase, inner, limited(file.read(MAX_FILE_BYTES + 1), str(inner))


class Unpacked(io.RawIOBase):
    """The content of a gzip file, of a limited size."""

    def __init__(self, packed: IO[bytes]) -> None:
        super().__init__()
        self._packed = packed
        self._unzip = zlib.decompressobj(wbits=31)
        self._left = MAX_TAR_BYTES

    def read(self, num_bytes: int = -1, /) -> bytes:
        """Return up to `num_bytes`. Raises `SubmissionError` when the whole is too long."""
        chunks: list[bytes] = []
        while num_bytes and not self._unzip.eof:
            packed = self._unzip.unconsumed_tail or self._packed.read(2**16)
            if not packed:
                break
            chunks.append(self._unzip.decompress(packed, num_bytes))
            num_bytes -= len(chunks[-1])
            self._left -= len(chunks[-1])
            if self._left < 0:
                raise SubmissionError(f"the archive unpacks to more than {MAX_TAR_BYTES >> 20} MiB")
        return b"".join(chunks)
