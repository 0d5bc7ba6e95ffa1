"""Sorts learning platforms' bulk downloads (zips with all files) into one folder per learner.

Canvas puts all files in one folder: `lovelaceada_LATE_123_4567_phase1.py`, or `LATE_anon_kX3fa_4567_phase1.py` if
graders do not see names. (Its source, `lib/content_zipper.rb`, removes `_digits_` from display names.) Moodle writes
`Ada Lovelace_123_assignsubmission_file/...`, or appends the file's name if folders are turned off. Learners choose
display names and file names. So an ambiguous name never displaces a clear one, and no name can abort the sorting.
"""

import csv
import io
import re
import stat
import unicodedata
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from mini_vllm_labs.classroom.export.gradebooks import FIRST_COLUMN
from mini_vllm_labs.classroom.judge.archives import (
    IGNORED,
    METHODS,
    SubmissionError,
    entries_of,
    phase_of,
    require_inside,
    require_short_directory,
)
from mini_vllm_labs.classroom.judge.report import file_name
from mini_vllm_labs.classroom.judge.submission import ENDINGS
from mini_vllm_labs.classroom.worker.text import one_line
from mini_vllm_labs.runs.sandbox.source_text import complaint_about_content, written_for_newer
from mini_vllm_labs.runs.starter_status import LABS

# The text that a platform puts between a display name and a file name. The lookahead lets the pattern find overlapping
# matches too.
FORMS = {
    "Canvas": re.compile(r"(?=(_LATE)?_(?P<id>[0-9]{1,20})_[0-9]+_(?P<file>.+))", re.DOTALL),
    "Canvas, anonymous": re.compile(
        r"(?:LATE_)?(?P<name>anon_(?P<id>[0-9A-Za-z]{1,20}))_[0-9]+_(?P<file>.+)", re.DOTALL
    ),
    "Moodle": re.compile(r"(?=_(?P<id>[0-9]{1,20})_assignsubmission_(?:file|onlinetext)_(?P<file>.+))", re.DOTALL),
}
MOODLE_FOLDER = re.compile(r"(?P<name>.+)_(?P<id>[0-9]{1,20})_assignsubmission_(?:file|onlinetext)_?", re.DOTALL)
ID_NAMES = {"Canvas": "ID", "Canvas, anonymous": "anonymous ID", "Moodle": "participant"}
ARCHIVES = (".zip", ".tar.gz", ".tgz")
# Windows reserves these names for devices
NO_FOLDERS = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
MAX_BYTES_EACH = 20 * 2**20
MAX_BYTES = 2 * 2**30
MAX_DEPTH = 12


class Reading(NamedTuple):
    """One way to interpret a path: the learner's display name and id, and the file."""

    name: str
    id: str
    file: PurePosixPath


@dataclass
class Collected:
    """The result of sorting: the platform, the learners' ids keyed by submission name, and the skipped files.

    `warnings` covers files that the judge's Python cannot read, and ambiguous names.
    """

    platform: str
    ids: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _names: dict[tuple[str, str], str] = field(default_factory=dict)
    _files: set[str] = field(default_factory=set)
    _folders: set[str] = field(default_factory=set)
    _phases: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def name_of(self, learner: str, number: str) -> str:
        """Return the name of a learner's submission, with the id appended if it looks the same as another name."""
        if (learner, number) not in self._names:
            name, taken = file_name(learner).strip().rstrip(". ") or "_", set(map(folded, self.ids))
            name = f"_{name}" if NO_FOLDERS.fullmatch(name) else name
            while folded(name) in taken | IGNORED or ENDINGS.search(name):
                name = f"{name}_{number}"
            self._names[learner, number], self.ids[name] = name, number
        return self._names[learner, number]

    def is_handed_in(self, reading: Reading) -> bool:
        """Return whether the learner already has a file for this phase, or a file that may contain any phase."""
        return phase_or_archive(reading.file) & self._phases[reading.id] != set()

    def place(self, reading: Reading) -> str:
        """Return a file's path in the target folder. Raises `SubmissionError` if the path is already in use or too
        long."""
        if any(number == reading.id and name != reading.name for name, number in self._names):
            raise SubmissionError(f"the id {reading.id} belongs to a different name")
        parts = [self.name_of(reading.name, reading.id), *map(part_name, reading.file.parts)]
        paths = [folded("/".join(parts[:depth])) for depth in range(1, len(parts) + 1)]
        if len(parts) > MAX_DEPTH or paths[-1] in self._files | self._folders or self._files & set(paths):
            raise SubmissionError("a different file or folder already has this name, or its path is too long")
        self._files.add(paths[-1])
        self._phases[reading.id] |= phase_or_archive(reading.file)
        self._folders.update(paths[:-1])
        return "/".join(parts)

    def roster(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([FIRST_COLUMN, ID_NAMES[self.platform]])
        writer.writerows(sorted(self.ids.items()))
        return out.getvalue()


def collect(download: Path, folder: Path) -> Collected:
    """Sort a bulk download into an existing folder; if a learner's only file is an archive, it stays packed.

    Raises `SubmissionError` if the file is not a bulk download or is too large.
    """
    if not download.is_file():
        raise SubmissionError("the download is not a regular file")
    require_short_directory(download)
    with zipfile.ZipFile(download) as archive:
        entries = list(files_in(archive))
        collected, num_bytes = Collected(platform_of([entry.filename for entry in entries], download)), 0
        # Unambiguous names come first, so that ambiguous ones cannot take their places.
        for entry in sorted(entries, key=lambda entry: num_learners(entry.filename, collected.platform)):
            if num_bytes > MAX_BYTES:
                raise SubmissionError(f"{one_line(download.name)} unpacks to more than {MAX_BYTES >> 30} GiB")
            try:
                reading = first_reading(entry.filename, collected)
                target = folder / collected.place(reading)
                # Create the folder even if the file cannot be read, so that every table lists the learner.
                target.parent.mkdir(parents=True, exist_ok=True)
                content = content_of(archive, entry)
                num_bytes += len(content)
            except SubmissionError as error:
                collected.skipped.append(f"{one_line(entry.filename)} ({error})")
                continue
            target.write_bytes(content)
            is_python = reading.file.suffix.lower() == ".py"
            if is_python and (warning := complaint_about_content(content) or written_for_newer(content)):
                collected.warnings.append(f"the judge cannot read {one_line(entry.filename)}: {one_line(warning)}")
            collected.warnings += filter(None, [doubt(entry.filename, reading, collected.platform)])
    for learner in list(folder.iterdir()):
        unwrap(learner)
    return collected


def platform_of(names: Sequence[str], download: Path) -> str:
    """Return the platform whose format most of the file names follow.

    Raises `SubmissionError` if no platform's format matches, or if there is a tie.
    """
    # A file's name may contain Canvas's `_11_29_`, which never occurs in display names and which Moodle's form never
    # needs.
    counts = {
        platform: sum(
            bool(readings(name, platform)) and not (platform == "Canvas" and readings(name, "Moodle")) for name in names
        )
        for platform in FORMS
    }
    if counts["Canvas, anonymous"] >= counts["Canvas"]:
        counts["Canvas"] = 0  # both match the same names, because an anonymous ID may be all digits
    most, *others = sorted(counts, key=lambda platform: -counts[platform])
    if not counts[most]:
        raise SubmissionError(f"{one_line(download.name)} contains no file named like a Canvas or Moodle download")
    if any(counts[other] == counts[most] for other in others):
        raise SubmissionError(f"the file names in {one_line(download.name)} match both Canvas and Moodle downloads")
    return most


def readings(name: str, platform: str) -> list[Reading]:
    head, *rest = name.replace("\\", "/").split("/")
    if rest and platform.startswith("Canvas"):
        return []
    if platform == "Canvas, anonymous":
        anonymous = FORMS[platform].fullmatch(head)
        return [Reading(anonymous["name"], anonymous["id"], PurePosixPath(anonymous["file"]))] if anonymous else []
    places = [place for place in FORMS[platform].finditer(head) if place.start()]
    found = [Reading(head[: place.start()], place["id"], PurePosixPath(place["file"], *rest)) for place in places]
    if rest and (folder := MOODLE_FOLDER.fullmatch(head)):
        found.append(Reading(folder["name"], folder["id"], PurePosixPath(*rest)))
    return found


def num_learners(name: str, platform: str) -> int:
    return len({reading.id for reading in readings(name, platform) if reading.file.name})


def first_reading(name: str, collected: Collected) -> Reading:
    """Return the first possible interpretation of a path; there may be several, because file names may contain a
    platform's separators.

    Raises `SubmissionError` if there is no interpretation, or if the path is ambiguous and that learner has already
    handed in this file. A display name can imitate that of another learner.
    """
    require_inside(name)
    found = [reading for reading in readings(name, collected.platform) if reading.file.name]
    if not found:
        raise SubmissionError(f"not the name of a {collected.platform} file")
    if len({reading.id for reading in found}) > 1 and collected.is_handed_in(found[0]):
        raise SubmissionError(
            "the file's name can be read in two ways: put the file into the right learner's folder by hand"
        )
    return found[0]


def doubt(name: str, reading: Reading, platform: str) -> str:
    """Return how an ambiguous name was interpreted, or an empty string if the name was clear."""
    if num_learners(name, platform) < 2:
        return ""
    shown = one_line(f"{reading.file} of {reading.name}, {ID_NAMES[platform]} {reading.id}")
    return f"{one_line(name)} was read as {shown}"


def phase_or_archive(file: PurePosixPath) -> set[int]:
    """Return the phase of a file as a set, or all phases if the file may contain any."""
    phase = phase_of(file)
    return {phase} if phase else {*LABS} if phase == 0 or file.name.lower().endswith((*ARCHIVES, ".py")) else set()


def files_in(archive: zipfile.ZipFile) -> Iterator[zipfile.ZipInfo]:
    """Return the files in a zip, except those that macOS adds."""
    return (one for one in entries_of(archive) if not one.is_dir() and "__MACOSX" not in one.filename)


def content_of(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return a file's content. Raises `SubmissionError` if the file is too large or cannot be read."""
    if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
        raise SubmissionError("this is a link, not a file: ask the learner for the file itself")
    if entry.compress_type not in METHODS:
        method = zipfile.compressor_names.get(entry.compress_type, "an unknown method")  # type: ignore[attr-defined]
        raise SubmissionError(
            f"the file is compressed with {method}, but the judge reads only deflate: unpack it and add its "
            "files by hand"
        )
    try:
        content = archive.open(entry).read(MAX_BYTES_EACH + 1)
    except Exception as error:  # `zipfile` raises various errors for a damaged file
        raise SubmissionError(f"the file is damaged or password-protected: {error or type(error).__name__}") from None
    if len(content) > MAX_BYTES_EACH:
        raise SubmissionError(f"the file is larger than {MAX_BYTES_EACH >> 20} MiB")
    return content


def folded(name: str) -> str:
    """Return a key that is the same for names that a file system or a reader may confuse."""
    return unicodedata.normalize("NFKC", name).casefold()


def part_name(part: str) -> str:
    """Make a name safe to use as a file name, but keep the extension that the judge checks."""
    ending = ENDINGS.search(part)
    return file_name(part[: ending.start()]) + ending[0] if ending and ending.start() else file_name(part)


def unwrap(learner: Path) -> None:
    """Replace a folder with its only file if that is an archive, because the judge reads archives itself."""
    files = [path for path in learner.rglob("*") if path.is_file()] if learner.is_dir() else []
    ending = next((ending for ending in ARCHIVES if len(files) == 1 and files[0].name.lower().endswith(ending)), None)
    if ending is None:
        return
    files[0].rename(learner.with_name(learner.name + ending))
    for path in sorted(learner.rglob("*"), reverse=True):
        path.rmdir()
    learner.rmdir()
