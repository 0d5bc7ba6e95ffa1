"""`mini-vllm gradescope`: the judge as a Gradescope autograder."""

from pathlib import Path
from typing import Annotated, get_args

import typer

from classroom.cli.options import NoJail, Phases, Seconds, Seed, Situations, new_settings
from classroom.export.autograder import compose, write_zip
from classroom.export.gradescope import Visibility
from classroom.judge.report import require_writable
from course.terminal.console import friendly, make_console


@friendly
def gradescope(
    target: Annotated[Path, typer.Argument(metavar="ZIP", help="The file to write.", show_default=False)],
    phase: Phases = None,
    seed: Seed = None,
    situations: Situations = 5,
    seconds: Seconds = 20.0,
    minutes: Annotated[float, typer.Option(min=0.5, help="For one submission; keep it below Gradescope's.")] = 8.0,
    shown: Annotated[
        str, typer.Option(metavar="WHEN", help=f"When learners see results: {', '.join(get_args(Visibility))}.")
    ] = "visible",
    no_jail: NoJail = False,
) -> None:
    """For teachers: write a Gradescope autograder. It holds the solutions and the seed: upload it, and keep it."""
    settings = new_settings(seed, situations, seconds, minutes, phase, no_jail=no_jail)
    visibility = next((value for value in get_args(Visibility) if value == shown), None)
    if visibility is None:
        raise ValueError(f"--shown {shown}: one of {', '.join(get_args(Visibility))}")
    require_writable([target])
    files = compose(settings, visibility)
    write_zip(files, target)
    console = make_console()
    size = target.stat().st_size / 1e6
    console.print(f"{target}: {len(files)} files, {size:.1f} MB, with the solutions", markup=False, soft_wrap=True)
    points = f"--seed {settings.seed} --situations {situations}"
    console.print(f"The same points here: mini-vllm judge ... {points}", markup=False, soft_wrap=True)
