"""`mini-vllm share` writes a run of the learner's engine as one HTML file."""

from io import StringIO
from os import fsencode
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer
from rich.console import Console

from mini_vllm_labs.fresh.process import FreshError
from mini_vllm_labs.fresh.shown_run import ShownRun, observed_run, shown_run
from mini_vllm_labs.pictures.terminal.console import fail, friendly, make_console
from mini_vllm_labs.pictures.terminal.learner_lineup import lineup_to_run
from mini_vllm_labs.pictures.terminal.options import LineupText
from mini_vllm_labs.pictures.terminal.step_table import step_table, totals

FRAME = '<iframe src="{name}" title="A run of a mini-vLLM engine" width="100%" height="900" loading="lazy"></iframe>'
TITLE = "A run of a mini-vLLM engine"
MAX_BYTES = 2_000_000
TEXT_WIDTH = 110


@friendly
def share(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The page to write.")] = Path("mini-vllm-run.html"),
    lineup: LineupText = None,
    recorded: Annotated[bool, typer.Option("--recorded", help="Share the finished engine's recorded run.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the workload.")] = 0,
    requests: Annotated[int, typer.Option(min=1, max=24, help="Number of requests.")] = 8,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
) -> None:
    """Write a run of your engine as one HTML file to show to others.

    The page plays offline, fits into a frame on another page, says whose code ran, and contains none of your source
    code.
    """
    console = make_console()
    if file.exists() and not overwrite:
        raise ValueError(f"{file} exists and was not changed: name a different file, or add --overwrite")
    try:
        run = observed_run() if recorded else shown_run(lineup_to_run(lineup, console), seed, requests)
    except FreshError as error:
        fail(f"the run did not end well, so there is nothing to share.\n{error}", 1)
    content = page_of(run).encode()
    if len(content) > MAX_BYTES:
        raise ValueError(
            f"the page would be {len(content):,} bytes long, but at most {MAX_BYTES:,} bytes can be shared: use fewer "
            "--requests"
        )
    write_page(file, content, overwrite=overwrite)
    console.print("\n".join([run.whose, *run.remarks]), markup=False)
    console.print(f"{file}: {len(content) / 1000:,.0f} kB. In a page of yours:", markup=False, soft_wrap=True)
    console.print(f"  {FRAME.format(name=quote(fsencode(file.name)))}", markup=False, soft_wrap=True)


def write_page(file: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write a page; an existing file is kept or, on request, replaced atomically.

    Raises `FileExistsError`.
    """
    if not overwrite:
        with file.open("xb") as new:
            new.write(content)
        return
    beside = file.with_name(f".{file.name}.new")
    beside.write_bytes(content)
    beside.replace(file)


def free_name(file: Path) -> Path:
    """Return the name, or the first of NAME-2, NAME-3, ... for which no file exists."""
    tries = (file.with_stem(f"{file.stem}-{number}") for number in range(2, 10_000))
    return next((one for one in tries if not one.exists()), file) if file.exists() else file


def page_of(run: ShownRun) -> str:
    """Return a run's page, worded for people other than the learner: the film of its steps, and a text version."""
    from mini_vllm_labs.pictures.page import Page
    from mini_vllm_labs.pictures.time_machine import time_machine

    steps = list(run.recording.steps)
    table = Console(file=StringIO(), width=TEXT_WIDTH, force_terminal=False)
    table.print(step_table(steps, run.recording.info.token_budget, range(len(steps))))
    assert isinstance(table.file, StringIO)
    about = " ".join([totals(steps), *run.remarks])
    whose = run.whose.replace("\n    ", ", ").replace(": yours", ": the learner's")
    return Page(TITLE, whose, about, table.file.getvalue(), run.texts).html(time_machine(run.recording), run.first)
