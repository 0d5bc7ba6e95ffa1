"""`mini-vllm nbgrader`: a course folder for nbgrader."""

from pathlib import Path
from typing import Annotated

import typer

from classroom.cli.options import NoJail, Phases, Seconds, Seed, Situations, new_settings
from classroom.export.nbgrader import compose
from classroom.student_edition.edition import write
from course.terminal.console import friendly, make_console


@friendly
def nbgrader(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or an empty folder.", show_default=False)],
    phase: Phases = None,
    seed: Seed = None,
    situations: Situations = 5,
    seconds: Seconds = 10.0,
    minutes: Annotated[float, typer.Option(min=0.5, help="For one phase of a learner.")] = 5.0,
    no_jail: NoJail = False,
) -> None:
    """For teachers: write a course folder for nbgrader, an assignment per phase, graded by the judge."""
    settings = new_settings(seed, situations, seconds, minutes, phase, no_jail=no_jail)
    write({path: text.encode() for path, text in compose(settings).items()}, folder)
    console = make_console()
    console.print(f"{folder}: source/phase1 and so on, for `nbgrader generate_assignment`", markup=False)
    console.print("The seed is in judge_settings.json: learners get release/ alone.", markup=False)
