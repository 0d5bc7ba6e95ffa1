"""`mini-vllm collect`: sorts a bulk download from Canvas or Moodle for the judge."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from mini_vllm_labs.classroom.export.downloads import collect as collect_download
from mini_vllm_labs.classroom.judge.report import write_whole
from mini_vllm_labs.pictures.terminal.console import friendly, make_console


@friendly
def collect(
    download: Annotated[Path, typer.Argument(metavar="ZIP", help="The platform's download.", show_default=False)],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or an empty folder.", show_default=False)],
) -> None:
    """Sort a bulk download into one folder per learner.

    Also writes the roster with the learners' ids.

    Exit code 0: all files are sorted. 1: some files were skipped. 2: bad usage, or an unknown kind of download.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} must be a new or empty folder")
    handed_in, roster = folder / "handed_in", folder / "roster.csv"
    try:
        handed_in.mkdir(parents=True)
        collected = collect_download(download, handed_in)
        write_whole(roster, collected.roster())
    except Exception as error:  # `zipfile` may raise any error for a damaged file
        shutil.rmtree(handed_in, ignore_errors=True)
        raise ValueError(f"{download} cannot be collected: {error or type(error).__name__}") from None
    console = make_console()
    console.print(f"{len(collected.ids)} learners, from {collected.platform}. Their ids: {roster}", markup=False)
    for name in collected.skipped:
        console.print(f"left out: {name}", markup=False, soft_wrap=True)
    for warning in collected.warnings:
        console.print(f"check: {warning}", markup=False, soft_wrap=True)
    console.print(f"Next: mini-vllm judge {handed_in}/*", markup=False, soft_wrap=True)
    if collected.skipped:
        raise typer.Exit(1)
