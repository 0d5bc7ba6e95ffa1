"""The installed `mini-vllm`: creates a course folder, and runs commands in the current course folder.

A command runs in a separate Python process, because the folder contains a package with this package's name. The folder
comes first in the import path of that process and of every process that it starts.
"""

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

from mini_vllm_labs.launcher.folder import COMMANDS, COMMANDS_OF_0_2, Changes, FolderError, course_around, start, update

COMPLETION = "_MINI_VLLM_COMPLETE"
MAX_PATHS = 10
ARCHIVE = Path(__file__).parents[1] / "edition.zip"
OUTSIDE = """This is not a folder of the course. The installed package alone runs nothing: your code is in a folder.
  make one      mini-vllm start my-labs
  go there      cd my-labs
Then `mini-vllm demo` says what comes first, and `mini-vllm --help` lists the commands."""


def main() -> None:
    """Run one command. Outside a course folder, or if `start` fails, exits with status 2 and a message."""
    arguments = sys.argv[1:]
    try:
        if arguments[:1] == ["start"]:
            start_command(arguments[1:])
            return
        run()
    except FolderError as error:
        sys.exit(refused(str(error)))


def run() -> None:
    """Run a command using the code in the course folder that contains the current directory."""
    folder = course_around(Path.cwd())
    if folder is None:
        if COMPLETION in os.environ:  # a shell is requesting Tab completions, and would print the message
            sys.exit()
        raise FolderError(OUTSIDE)
    if not (folder / COMMANDS).is_file():
        if (folder / COMMANDS_OF_0_2).is_file():
            raise FolderError(f"{folder} is from an older release. To update it: mini-vllm start {folder} --update")
        raise FolderError(f"{folder} is unfinished: mini-vllm start {folder} continues it")
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), path]))
    command = [sys.executable, "-P", "-m", "mini_vllm_labs.cli", *sys.argv[1:]]
    # on Windows, a process that replaces itself hands control back to the shell immediately
    if sys.platform == "win32":
        sys.exit(subprocess.call(command))
    os.execv(sys.executable, command)


def start_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mini-vllm start", description="Write the course into a folder of yours.")
    parser.add_argument("folder", metavar="DIR", nargs="?", help="a new or an empty folder; with --update one of yours")
    parser.add_argument(
        "--update",
        action="store_true",
        help="bring new handouts, tests and helpers; starters and what you have changed stay as they are",
    )
    return parser


def start_command(arguments: Sequence[str]) -> None:
    parser = start_parser()
    given = parser.parse_args(arguments)
    if given.folder is None and not given.update:
        parser.error("name a folder: mini-vllm start my-labs")
    folder = Path(given.folder) if given.folder else course_around(Path.cwd())
    if folder is None:
        raise FolderError(OUTSIDE)
    print("\n".join(told(folder, (update if given.update else start)(folder, edition()), is_update=given.update)))


def edition() -> dict[str, bytes]:
    """Return the files of the course, keyed by path. Raises `FolderError` if the package was not built from an
    edition."""
    if not ARCHIVE.is_file():
        raise FolderError(
            "this installation is a checkout of the course and contains no archive to unpack: work in the checkout, or "
            "build the package with `mini-vllm release --wheel DIR`"
        )
    with ZipFile(ARCHIVE) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def told(folder: Path, changes: Changes, *, is_update: bool) -> list[str]:
    """Describe the changes line by line, with the next command to type."""
    lines = [f"{len(changes.written)} files written in {folder.resolve()}."]
    if changes.removed:
        lines.append(f"Removed, no longer part of the course: {', '.join(by_folder(changes.removed))}")
    for path, ours in changes.kept.items():
        lines.append(f"Yours is kept: {path}. Ours is beside it: {ours}")
    if is_update:
        return [*lines, "Starters and what you have changed are as they were."]
    return [*lines, f"Next: cd {folder}, then `mini-vllm demo`, which says what comes first."]


def by_folder(paths: Sequence[str]) -> list[str]:
    """Return the paths or, if there are many, the number in each top folder, such as `cli/ (29)`."""
    if len(paths) <= MAX_PATHS:
        return list(paths)
    counts = Counter(path.partition("/")[0] + "/" if "/" in path else path for path in paths)
    return [f"{name} ({count})" if name.endswith("/") else name for name, count in sorted(counts.items())]


def refused(text: str) -> int:
    print(text, file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
