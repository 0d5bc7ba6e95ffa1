"""`mini-vllm bring` puts the starters from a zip of the browser's lab into this checkout."""

import zipfile
import zlib
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.pictures.terminal.console import friendly, make_console
from mini_vllm_labs.runs.starter_status import LABS, starter_path

MAX_BYTES = 2**20


@friendly
def bring(
    work: Annotated[Path, typer.Argument(metavar="ZIP", help="The zip that the lab exported.", show_default=False)],
) -> None:
    """Put the starters from a zip of the browser's lab into this checkout.

    A replaced starter is moved to kept/, and both paths are printed. Nothing is written unless every starter is
    readable.
    """
    for line in bring_into(CHECKOUT, work):
        make_console().print(line, markup=False, soft_wrap=True)


def bring_into(checkout: Path, work: Path) -> list[str]:
    """Put a zip's starters into a checkout; return what changed. Raises `ValueError` like `starters_in`."""
    lines = []
    kept = checkout / "kept" / f"{datetime.now():%Y-%m-%dT%H-%M-%S-%f}"
    for phase, text in starters_in(work).items():
        path = starter_path(phase, checkout)
        name, old = path.relative_to(checkout).as_posix(), kept / path.relative_to(checkout)
        if not path.exists():
            lines.append(f"{name}: written; there was none")
        elif path.read_bytes() != text:
            old.parent.mkdir(parents=True)
            old.write_bytes(path.read_bytes())
            lines.append(f"{name}: replaced; what was there is in {old.relative_to(checkout).as_posix()}")
        path.write_bytes(text)
    return lines or ["Nothing to bring: all starters equal those in the zip."]


def starters_in(work: Path) -> dict[int, bytes]:
    """Return the starters, keyed by phase. Raises `ValueError` unless `work` is an undamaged zip of the lab."""
    names = {starter_path(phase).relative_to(CHECKOUT).as_posix(): phase for phase in LABS}
    try:
        with zipfile.ZipFile(work) as archive:
            found = {names[entry.filename]: entry for entry in archive.infolist() if entry.filename in names}
            if large := [entry.filename for entry in found.values() if entry.file_size > MAX_BYTES]:
                raise ValueError(f"{work}: {large[0]} is larger than {MAX_BYTES >> 20} MiB")
            starters = {phase: archive.read(entry) for phase, entry in sorted(found.items())}
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        # RuntimeError means an unsupported format
        raise ValueError(f"{work} is not a zip exported from the lab, or it is damaged: {error}") from None
    if not starters:
        raise ValueError(f"{work} is not an export of the lab: it has no starter in a folder inside labs/")
    return starters
