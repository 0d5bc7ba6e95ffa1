"""`mini-vllm nbgrader`: a course folder for nbgrader."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from classroom.cli.options import JudgeOptions
from classroom.export.nbgrader import compose
from classroom.student_edition.edition import write
from course.terminal.console import friendly, make_console
from course.terminal.option_groups import with_option_groups


@dataclass(frozen=True)
class Options(JudgeOptions):
    """What is graded, within the limits of a phase."""

    minutes: Annotated[float, typer.Option(min=0.5, help="For one phase of a learner.")] = 5.0


@friendly
@with_option_groups
def nbgrader(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or an empty folder.", show_default=False)],
    *,
    options: Options,
) -> None:
    """For teachers: write a course folder for nbgrader.

    An assignment per phase, graded by the judge.
    """
    settings = options.settings()
    write({path: text.encode() for path, text in compose(settings).items()}, folder)
    console = make_console()
    console.print(f"{folder}: source/phase1 and so on, for `nbgrader generate_assignment`", markup=False)
    console.print("The seed is in judge_settings.json: learners get release/ alone.", markup=False)
