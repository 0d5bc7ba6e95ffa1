"""`mini-vllm gradescope` packs the judge as a Gradescope autograder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, get_args

import typer

from mini_vllm_labs.classroom.export.gradescope import Visibility, compose, write_zip
from mini_vllm_labs.classroom.export.vivas import Vivas
from mini_vllm_labs.classroom.judge.report import require_writable
from mini_vllm_labs.cli.classroom.options import JudgeOptions, Seconds
from mini_vllm_labs.pictures.terminal.console import friendly, make_console
from mini_vllm_labs.pictures.terminal.option_groups import with_option_groups


@dataclass(frozen=True)
class GradescopeOptions(JudgeOptions):
    """The judge's settings, with limits for Gradescope's slower machines."""

    seconds: Seconds = 20.0
    minutes: Annotated[
        float, typer.Option(min=0.5, help="Seconds for one submission; keep it below Gradescope's limit.")
    ] = 8.0


@friendly
@with_option_groups
def gradescope(
    target: Annotated[Path, typer.Argument(metavar="ZIP", help="The file to write.", show_default=False)],
    *,
    options: GradescopeOptions,
    shown: Annotated[
        str, typer.Option(metavar="WHEN", help=f"When learners see results: {', '.join(get_args(Visibility))}.")
    ] = "visible",
    viva: Annotated[Path | None, typer.Option(metavar="DIR", help="Add points of the vivas in *.json.")] = None,
) -> None:
    """Write a Gradescope autograder.

    The zip contains the solutions and the seed: upload it, and keep a copy.
    """
    settings = options.settings()
    visibility = next((value for value in get_args(Visibility) if value == shown), None)
    if visibility is None:
        raise ValueError(f"--shown {shown}: choose one of {', '.join(get_args(Visibility))}")
    require_writable([target])
    files = compose(settings, visibility, None if viva is None else Vivas.read(viva))
    write_zip(files, target)
    console = make_console()
    size = target.stat().st_size / 1e6
    console.print(f"{target}: {len(files)} files, {size:.1f} MB, with the solutions", markup=False, soft_wrap=True)
    points = f"--seed {settings.seed} --situations {options.situations}"
    console.print(f"The same points here: mini-vllm judge ... {points}", markup=False, soft_wrap=True)
