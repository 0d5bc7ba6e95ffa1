"""`mini-vllm nbgrader`: a course folder for nbgrader."""

import secrets
from pathlib import Path
from typing import Annotated

import typer

from classroom.export.nbgrader import compose
from classroom.judge.settings import Settings
from classroom.release import write
from course.terminal.console import friendly, make_console
from course.terminal.options import chosen_phases
from mini_vllm.seams.lineup import PHASE_NAMES
from mini_vllm.seams.parts import solutions_exist


@friendly
def nbgrader(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or an empty folder.", show_default=False)],
    phase: Annotated[str | None, typer.Option(metavar="K or K-M", help="Default: all phases.")] = None,
    seed: Annotated[str | None, typer.Option(metavar="TEXT", help="Default: a new secret one.")] = None,
    situations: Annotated[int, typer.Option(min=1, help="Number of situations in each test group.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.5, help="For one situation.")] = 10.0,
    minutes: Annotated[float, typer.Option(min=0.5, help="For one phase of a learner.")] = 5.0,
    no_jail: Annotated[bool, typer.Option("--no-jail", help="Grade without isolation.")] = False,
) -> None:
    """For teachers: write a course folder for nbgrader, an assignment per phase, graded by the judge."""
    if not solutions_exist():
        raise ValueError("the graded cells need solutions/: this is a student edition")
    numbers = tuple(chosen_phases(phase, len(PHASE_NAMES)))
    settings = Settings(seed or secrets.token_hex(16), situations, seconds, minutes, numbers, not no_jail)
    write({path: text.encode() for path, text in compose(settings).items()}, folder)
    console = make_console()
    console.print(f"{folder}: source/phase1 and so on, for `nbgrader generate_assignment`", markup=False)
    console.print("The seed is in judge_settings.json: learners get release/ alone.", markup=False)
