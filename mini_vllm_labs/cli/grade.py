"""`mini-vllm grade` prints the points of the learner's starters, the first failure, and the next task."""

import importlib.util
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.installation import install_command
from mini_vllm_labs.grading.grader import Grader, OnProgress
from mini_vllm_labs.grading.history import note_grades
from mini_vllm_labs.grading.plan import PlannedPhase, load_whole_plan
from mini_vllm_labs.grading.reports import as_json, as_junit, as_markdown
from mini_vllm_labs.grading.view import show_grade
from mini_vllm_labs.pictures.terminal.console import fail, friendly, is_live, make_console
from mini_vllm_labs.pictures.terminal.options import chosen_phases
from mini_vllm_labs.pictures.terminal.progress import reported
from mini_vllm_labs.runs.starter_status import is_begun


@friendly
def grade(
    phase: Annotated[
        str | None, typer.Option(metavar="K or K-M", help="Default: phases 1 to 6, and electives you have begun.")
    ] = None,
    as_json_text: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write JUnit XML.")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a page of Markdown.")] = None,
    min_points: Annotated[float, typer.Option(metavar="N", help="Exit with 1 below this many points.")] = 0,
) -> None:
    """Grade your starters, regardless of LAB_IMPL.

    The command prints the points for each task, and grades each phase both on its own and together with the earlier
    phases.

    Exit code 0: grading finished, whatever the points. 1: a phase could not be graded, or the points are below
    --min-points. 2: bad usage.
    """
    plan = load_whole_plan()
    numbers = begun(plan) if phase is None else chosen_phases(phase, len(plan))
    require_this_checkout()
    if importlib.util.find_spec("pytest") is None:
        fail(f"grading needs pytest: {install_command('test')}", 1)
    for name, file in (("--junit", junit), ("--markdown", markdown)):
        if file is not None and not file.parent.is_dir():
            raise ValueError(f"{name} {file}: the folder {file.parent} does not exist")
    console = make_console()
    with progress(make_console(stderr=True), [phase for phase in plan if phase.number in numbers]) as say:
        found = Grader(say).grade(numbers)
    note_grades(found.phases)
    if junit is not None:
        junit.write_text(as_junit(found), encoding="utf-8")
    if markdown is not None:
        markdown.write_text(as_markdown(found), encoding="utf-8")
    if as_json_text:
        typer.echo(json.dumps(as_json(found) | {"cpu_seconds": round(sum(os.times()[:4]), 2)}, indent=1))
    else:
        show_grade(console, found)
    points = found.points if found.course else found.elective_points
    if found.has_errors or points < min_points:
        raise typer.Exit(1)


def begun(plan: Sequence[PlannedPhase]) -> list[int]:
    """Return the phases of the course, and the electives whose starters have been changed."""
    return [phase.number for phase in plan if not phase.is_elective or is_begun(phase.number)]


def require_this_checkout() -> None:
    """Raise `ValueError` if the current directory is a checkout other than the one to be graded."""
    here = Path.cwd()
    if (here / "labs" / "conftest.py").exists() and here.resolve() != CHECKOUT.resolve():
        raise ValueError(
            f"you are in {here}, but mini_vllm is imported from {CHECKOUT}: "
            f"`python -m mini_vllm_labs.cli grade` grades {here}"
        )


@contextmanager
def progress(console: Console, phases: list[PlannedPhase]) -> Iterator[OnProgress]:
    """Show progress per phase, as bars or (without a terminal) as lines, while the block runs; yield an update
    function."""
    if not is_live(console):
        total, done_of = sum(len(phase.tests) for phase in phases), dict[int, int]()

        def count(number: int, done: int, what: str) -> None:
            done_of[number] = done  # several phases are graded in parallel, so this is the total time for all of them
            report("Grading tests", sum(done_of.values()), total)

        with reported("Grading tests", console) as report:
            yield count
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[what]}"))
    with Progress(*columns, TimeRemainingColumn(elapsed_when_finished=True), console=console, transient=True) as bars:
        tasks = {
            phase.number: bars.add_task(f"{phase.number} {phase.name}", total=len(phase.tests), start=False, what="")
            for phase in phases
        }

        def say(number: int, done: int, what: str) -> None:
            bars.start_task(tasks[number])
            bars.update(tasks[number], completed=done, what=what)

        yield say
