"""`mini-vllm bring`: the starters of a zip from the browser's lab, into this checkout."""

import time
import zipfile
from pathlib import Path
from typing import Annotated

import typer

from course.starter_status import starter_path
from course.terminal.console import friendly, make_console
from mini_vllm.assembly.lineup import ALL_NAMES, CHECKOUT

MAX_BYTES = 2**20
KEPT = "kept"


@friendly
def bring(
    work: Annotated[Path, typer.Argument(metavar="ZIP", help="What the lab exported.", show_default=False)],
) -> None:
    """Put the starters of a zip from the browser's lab into this checkout.

    A starter that is replaced is kept in kept/, and both places are printed. Nothing is written unless all can be read.
    """
    console = make_console()
    changed = {phase: text for phase, text in starters_in(work).items() if text != current(phase)}
    place = Path(KEPT, time.strftime("%Y-%m-%dT%H-%M-%S"))
    for phase, text in changed.items():
        path = starter_path(phase)
        name = path.relative_to(CHECKOUT)
        old = CHECKOUT / place / name
        old.parent.mkdir(parents=True)
        if path.exists():
            path.replace(old)
        path.write_bytes(text)
        console.print(f"{name.as_posix()} is the zip's; before: {(place / name).as_posix()}", soft_wrap=True)
    if not changed:
        console.print("Nothing to bring: all starters are as they are in the zip.")


def current(phase: int) -> bytes:
    path = starter_path(phase)
    return path.read_bytes() if path.exists() else b""


def starters_in(work: Path) -> dict[int, bytes]:
    """Return phase to starter. Raises `ValueError` for what is no zip of the lab or is damaged."""
    names = {starter_path(phase).relative_to(CHECKOUT).as_posix(): phase for phase in range(1, len(ALL_NAMES) + 1)}
    try:
        with zipfile.ZipFile(work) as archive:
            found = {names[entry.filename]: entry for entry in archive.infolist() if entry.filename in names}
            if large := [entry.filename for entry in found.values() if entry.file_size > MAX_BYTES]:
                raise ValueError(f"{work}: {large[0]} is larger than {MAX_BYTES >> 20} MiB")
            starters = {phase: archive.read(entry) for phase, entry in sorted(found.items())}
    except zipfile.BadZipFile as error:
        raise ValueError(f"{work} is no zip, or a damaged one: {error}") from None
    if not starters:
        raise ValueError(f"{work} is no export of the lab: it has no labs/phaseN_.../starter.py")
    return starters
