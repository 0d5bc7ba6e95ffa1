"""The bulk downloads of learning platforms: one zip with all files, sorted into a folder for each learner.

Canvas: `lovelaceada_LATE_123_4567_phase1.py`, all in one folder. Moodle: `Ada Lovelace_123_assignsubmission_file/...`,
or with the file's name after it where folders were switched off.
"""

import csv
import io
import re
import stat
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from classroom.export.gradebooks import FIRST_COLUMN
from classroom.judge.archives import METHODS, SubmissionError, require_inside, require_short_directory
from classroom.judge.report import file_name
from classroom.worker.text import one_line

CANVAS = re.compile(r"(?P<name>[^_/]+)(?:_LATE)?_(?P<id>\d+)_\d+_(?P<file>[^/]+)", re.IGNORECASE)
MOODLE = re.compile(r"(?P<name>[^/]+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?/?(?P<file>.+)")
FORMS = {"Moodle": MOODLE, "Canvas": CANVAS}
ID_NAMES = {"Canvas": "ID", "Moodle": "participant"}
ARCHIVES = (".zip", ".tar.gz", ".tgz")
MAX_BYTES_EACH = 20 * 2**20
MAX_BYTES = 2 * 2**30


@dataclass(frozen=True)
class Collected:
    """What was sorted: the platform, each learner's id by the name of the submission, and the files left out."""

    platform: str
    ids: dict[str, str]
    skipped: list[str]

    def name_of(self, learner: str, number: str) -> str:
        """Return the name of a learner's submission; with the id if two learners have the same name."""
        name = file_name(learner)
        if self.ids.setdefault(name, number) == number:
            return name
        self.ids[f"{name}_{number}"] = number
        return f"{name}_{number}"

    def roster(self) -> str:
        """Return the roster of `mini-vllm judge --roster`."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([FIRST_COLUMN, ID_NAMES[self.platform]])
        writer.writerows(sorted(self.ids.items()))
        return out.getvalue()


def collect(download: Path, folder: Path) -> Collected:
    """Sort a bulk download into an existing folder; an archive that is all a learner sent is not unpacked.

    Raises `SubmissionError` if it is not such a download, or too large.
    """
    require_short_directory(download)
    with zipfile.ZipFile(download) as archive:
        entries = list(files_in(archive))
        platform, form = platform_of([path for path, _ in entries], download)
        collected, num_bytes = Collected(platform, {}, []), 0
        for path, entry in entries:
            found = form.fullmatch(str(path))
            content = archive.open(entry).read(MAX_BYTES_EACH + 1) if found else b""
            num_bytes += len(content)
            if num_bytes > MAX_BYTES:
                raise SubmissionError(f"{one_line(download.name)} unpacks to more than {MAX_BYTES >> 30} GiB")
            if found is None or len(content) > MAX_BYTES_EACH:
                collected.skipped.append(one_line(str(path)))
            else:
                name = collected.name_of(found["name"], found["id"])
                put(folder / name, PurePosixPath(found["file"]), content)
    for learner in list(folder.iterdir()):
        unwrap(learner)
    return collected


def platform_of(paths: Sequence[PurePosixPath], download: Path) -> tuple[str, re.Pattern[str]]:
    """Return the platform that named the files, and the pattern of its names. Raises `SubmissionError`."""
    for platform, form in FORMS.items():
        if any(form.fullmatch(str(path)) for path in paths):
            return platform, form
    raise SubmissionError(f"{one_line(download.name)} holds no file names of a Canvas or Moodle download")


def files_in(archive: zipfile.ZipFile) -> Iterator[tuple[PurePosixPath, zipfile.ZipInfo]]:
    """Yield the ordinary files of a zip. Raises `SubmissionError` for paths that lead out of it."""
    for entry in archive.infolist():
        path = require_inside(entry.filename)
        is_file = stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG)
        if not entry.is_dir() and is_file and entry.compress_type in METHODS and "__MACOSX" not in path.parts:
            yield path, entry


def put(folder: Path, path: PurePosixPath, content: bytes) -> None:
    target = folder.joinpath(*[file_name(part) for part in path.parts])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


def unwrap(learner: Path) -> None:
    """Replace a folder by the archive in it if that is its only file: the judge reads archives itself."""
    files = [path for path in learner.rglob("*") if path.is_file()] if learner.is_dir() else []
    ending = next((ending for ending in ARCHIVES if len(files) == 1 and files[0].name.lower().endswith(ending)), None)
    if ending is None:
        return
    files[0].rename(learner.with_name(learner.name + ending))
    for path in sorted(learner.rglob("*"), reverse=True):
        path.rmdir()
    learner.rmdir()
