"""`mini-vllm grade-tests` shows which mistakes your test file catches, and which rules it does not test."""

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mini_vllm_labs.grading.own_tests.grade import POINTS, TestsGrade, added_to, graded, read_points
from mini_vllm_labs.pictures.terminal.console import friendly, make_console
from mini_vllm_labs.pictures.terminal.progress import reported
from mini_vllm_labs.pictures.terminal.step_view import STRONG
from mini_vllm_labs.pictures.text import counted
from mini_vllm_labs.runs.starter_status import LABS


@friendly
def grade_tests(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A pytest file.", show_default=False)],
    phase: Annotated[int, typer.Option(min=LABS[0], max=LABS[-1], help="The phase that it tests.", show_default=False)],
    sheet: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Add the points to this file, for `mini-vllm judge --tests`."),
    ] = None,
) -> None:
    """Grade your test file on known mistakes in a phase.

    Your tests use the `phaseN` fixture, or import the phase's starter. The tests run on known mistakes, whose code is
    not shown, and on other correct versions of the phase. Your points are ten times the share of mistakes that a test
    catches, times the share of correct versions that all tests accept. Your own version of the phase must already be
    correct.

    Exit code 1: a rule has no test, or a correct version of the phase is rejected.
    """
    console = make_console()
    if sheet is not None and (sheet.suffix != ".json" or not sheet.resolve().parent.is_dir()):
        raise ValueError(f"--sheet {sheet}: name a .json file in an existing folder")
    if sheet is not None and sheet.exists():
        read_points(sheet)  # read before the work starts, in case the file is of a different kind
    with reported(f"Running your tests on mistakes of phase {phase}"):
        grade = graded(file, phase)
    show(console, grade)
    if sheet is not None:
        added_to(sheet, grade)
    if grade.untested or grade.num_accepted < len(grade.fair):
        raise typer.Exit(1)


def show(console: Console, grade: TestsGrade) -> None:
    """Print a row for each rule and each rejected approach, followed by the points."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False)
    table.add_column("rule")
    table.add_column("caught", justify="right", no_wrap=True)
    for rule, (caught, total) in sorted(grade.rules.items(), key=lambda one: one[1][0] / one[1][1]):
        style = "red" if not caught else "yellow" if caught < total else "green"
        table.add_row(Text(rule), Text(f"{caught} of {total}", style))
    console.print(table)
    for name, why in grade.fair.items():
        if why:
            console.print(f"refused, although right: {name}. {why}", style="red", markup=False)
    if grade.prints:
        console.print("What your tests print is not shown.", markup=False)
    tested = len(grade.rules) - len(grade.untested)
    console.print(
        f"\n{counted(grade.tests, 'test')}: {grade.num_caught} of {grade.num_mistakes} mistakes are caught, "
        f"{grade.num_accepted} of {len(grade.fair)} right ways accepted, "
        f"and {tested} of {len(grade.rules)} rules tested.",
        markup=False,
    )
    console.print(f"{grade.points} of {POINTS} points", style=STRONG, markup=False)
