"""Writes the learner's folder, resumes after an interruption, and updates it without touching the learner's work."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import count
from pathlib import Path

MARKER = ".mini-vllm-labs.json"
PART = ".being-written"
STARTERS = "labs/*/starter*"
COURSE = ("labs/conftest.py", "mini_vllm/__init__.py")
COMMANDS = "mini_vllm_labs/cli/__main__.py"
COMMANDS_OF_0_2 = "cli/__main__.py"  # up to release 0.2, a course folder contained ten packages
Ours = Mapping[str, list[str]]


class FolderError(ValueError):
    """The folder was not written, or only partly written; the message gives the reason and the next command."""


@dataclass(frozen=True)
class Marker:
    """The hashes of the files that we wrote, keyed by path, and whether the last call was interrupted."""

    ours: Ours
    unfinished: bool


@dataclass
class Changes:
    """The paths that a call changed. `kept` maps the learner's files to the names of our new versions."""

    written: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)


def is_course(folder: Path) -> bool:
    has_commands = (folder / COMMANDS).is_file() or (folder / COMMANDS_OF_0_2).is_file()
    return (folder / MARKER).is_file() or (has_commands and all((folder / name).is_file() for name in COURSE))


def course_around(place: Path) -> Path | None:
    """Return the innermost course folder that contains `place`, or None."""
    return next((folder for folder in (place, *place.parents) if is_course(folder)), None)


def start(folder: Path, edition: Mapping[str, bytes]) -> Changes:
    """Write the edition into a new or empty folder, or finish one that an earlier call left unfinished.

    Raises `FolderError` if the folder contains anything else.
    """
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"{folder} is a file, so nothing was written: name a new folder")
    around = course_around(folder.resolve().parent)
    if around is not None:
        raise FolderError(
            f"{folder} would be inside the course in {around}, so nothing was written: name a different folder"
        )
    with held(folder):
        marker = read_marker(folder)
        if marker is None and any(path.name != MARKER + PART for path in folder.iterdir()):
            raise FolderError(
                f"{folder} exists and is not empty: nothing was written. Name a new folder. To update the handouts and "
                f"tests in a course folder: mini-vllm start {folder} --update"
            )
        if marker is not None and not marker.unfinished:
            raise FolderError(
                f"{folder} is already a course folder: nothing was written. "
                f"To update its handouts and tests: mini-vllm start {folder} --update"
            )
        return bring(folder, edition, {} if marker is None else marker.ours)


def update(folder: Path, edition: Mapping[str, bytes]) -> Changes:
    """Update a folder's handouts, tests and helpers. Raises `FolderError` if it is not a course folder.

    Starters and files that the learner changed are not touched; a newer version of such a file is written next to it as
    FILE.new.
    """
    if not is_course(folder):
        raise FolderError(f"{folder} is not a course folder: mini-vllm start {folder} creates one")
    if (folder / "solutions" / "__init__.py").is_file():
        raise FolderError(f"{folder} is a teacher's checkout, with solutions: update it with git")
    with held(folder):
        marker = read_marker(folder)
        return bring(folder, edition, {} if marker is None else marker.ours)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock the folder for one call, creating it if missing; a killed call releases the lock. The folder is not locked
    on Windows.

    Raises `FolderError` if a different call holds the lock or a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if sys.platform == "win32":
            yield
            return
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        finally:
            os.close(handle)
    except BlockingIOError as error:
        raise FolderError(f"another `mini-vllm start` is writing to {folder}: wait until it has finished") from error
    except OSError as error:
        raise FolderError(
            f"{folder} is unfinished: {error.strerror or error} ({error.filename}). None of your files was "
            "changed; fix the problem and run the command again to continue"
        ) from error


def bring(folder: Path, edition: Mapping[str, bytes], before: Ours) -> Changes:
    """Write missing files, and update the course's outdated files.

    A call may be killed at any moment; the next call finishes the work.
    """
    now = {path: digest(content) for path, content in edition.items()}
    both = {path: [*before.get(path, []), *([now[path]] if path in now else [])] for path in {*before, *now}}
    changes = Changes()
    write_marker(folder, both, unfinished=True)
    for path, content in edition.items():
        bring_file(folder, path, content, before.get(path, []), changes)
    for path in sorted({*before} - {*now}):
        old = folder / path
        if old.is_file() and digest(old.read_bytes()) in before[path] and not fnmatch(path, STARTERS):
            old.unlink()
            remove_empty_folders(folder, old.parent)
            changes.removed.append(path)
    write_marker(folder, {path: [hashed] for path, hashed in now.items()}, unfinished=False)
    return changes


def remove_empty_folders(top: Path, folder: Path) -> None:
    """Remove folders that contain nothing except compiled files, up to but not including `top`."""
    while folder != top and not any(path.name != "__pycache__" for path in folder.iterdir()):
        shutil.rmtree(folder)
        folder = folder.parent


def bring_file(folder: Path, path: str, content: bytes, before: list[str], changes: Changes) -> None:
    """Write one file, or FILE.new next to the learner's if the course's version has changed since it was handed out."""
    target = folder / path
    if not os.path.lexists(target):
        write_whole(target, content)
        changes.written.append(path)
        return
    found, ours = digest(target.read_bytes()), digest(content)
    if found == ours:
        return
    if found in before and not fnmatch(path, STARTERS):
        write_whole(target, content)
        changes.written.append(path)
    elif ours not in before:
        changes.kept[path] = write_beside(target, content).name


def write_beside(target: Path, content: bytes) -> Path:
    """Write our version next to the learner's file as FILE.new, or FILE.new2 if that name is taken."""
    names = (target.with_name(f"{target.name}.new{number if number > 1 else ''}") for number in count(1))
    place = next(name for name in names if not os.path.lexists(name) or name.read_bytes() == content)
    write_whole(place, content)
    return place


def write_whole(target: Path, content: bytes) -> None:
    """Write a file atomically."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + PART)
    part.write_bytes(content)
    part.replace(target)


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file, ignoring any line-ending changes made by Git on Windows."""
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


def write_marker(folder: Path, ours: Ours, *, unfinished: bool) -> None:
    text = json.dumps({"unfinished": unfinished, "ours": ours}, indent=0, sort_keys=True)
    write_whole(folder / MARKER, text.encode())


def read_marker(folder: Path) -> Marker | None:
    """Return the folder's marker, or None if there is no marker. Raises `FolderError` if the marker cannot be read."""
    path = folder / MARKER
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        ours = {str(name): [str(hashed) for hashed in hashes] for name, hashes in found["ours"].items()}
        return Marker(ours, bool(found["unfinished"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FolderError(
            f"{path} cannot be read: delete it, and `--update` will treat every changed file as yours"
        ) from error
