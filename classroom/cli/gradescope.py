"""`mini-vllm gradescope`: the judge as a Gradescope autograder."""

import secrets
from pathlib import Path
from typing import Annotated, get_args

import typer

from classroom.export.autograder import compose, write_zip
from classroom.export.gradescope import Visibility
from classroom.judge.report import require_writable
from classroom.judge.settings import Settings
from course.terminal.console import friendly, make_console
from course.terminal.options import chosen_phases
from mini_vllm.seams.lineup import PHASE_NAMES
from mini_vllm.seams.parts import solutions_exist


@friendly
def gradescope(
    target: Annotated[Path, typer.Argument(metavar="ZIP", help="The file to write.", show_default=False)],
    phase: Annotated[str | None, typer.Option(metavar="K or K-M", help="Default: all phases.")] = None,
    seed: Annotated[str | None, typer.Option(metavar="TEXT", help="Default: a new secret one.")] = None,
    situations: Annotated[int, typer.Option(min=1, help="Number of situations in each test group.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.5, help="For one situation; their machines are slow.")] = 20.0,
    minutes: Annotated[float, typer.Option(min=0.5, help="For one submission; keep it below Gradescope's.")] = 8.0,
    shown: Annotated[
        str, typer.Option(metavar="WHEN", help=f"When learners see results: {', '.join(get_args(Visibility))}.")
    ] = "visible",
    no_jail: Annotated[bool, typer.Option("--no-jail", help="Grade without isolation there.")] = False,
) -> None:
    """For teachers: write a Gradescope autograder. It holds the solutions and the seed: upload it, and keep it."""
    if not solutions_exist():
        raise ValueError("the autograder needs solutions/: this is a student edition")
    visibility = next((value for value in get_args(Visibility) if value == shown), None)
    if visibility is None:
        raise ValueError(f"--shown {shown}: one of {', '.join(get_args(Visibility))}")
    require_writable([target])
    numbers = tuple(chosen_phases(phase, len(PHASE_NAMES)))
    settings = Settings(seed or secrets.token_hex(16), situations, seconds, minutes, numbers, not no_jail)
    files = compose(settings, visibility)
    write_zip(files, target)
    console = make_console()
    size = target.stat().st_size / 1e6
    console.print(f"{target}: {len(files)} files, {size:.1f} MB, with the solutions", markup=False, soft_wrap=True)
    points = f"--seed {settings.seed} --situations {situations}"
    console.print(f"The same points here: mini-vllm judge ... {points}", markup=False, soft_wrap=True)
