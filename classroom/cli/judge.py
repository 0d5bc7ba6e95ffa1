"""`mini-vllm judge`: points for a class, in isolation and by the same rules for all. Not in the student edition."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from classroom.judge.jail import Jail, find_jail
from classroom.judge.judge import Judge
from classroom.judge.probe import require_jail
from classroom.judge.report import class_table, write_files
from classroom.judge.results import Report, SubmissionGrade
from classroom.judge.submission import read_submissions
from course.terminal.console import friendly, is_live, make_console
from course.terminal.options import chosen_phases
from mini_vllm.seams.lineup import PHASE_NAMES
from mini_vllm.seams.parts import solutions_exist

NOT_ISOLATED = "NOT ISOLATED: --no-jail lets submissions read, write and send whatever you can, the solutions too."


@friendly
def judge(
    submissions: Annotated[
        list[Path], typer.Argument(metavar="SUBMISSION...", help="Folders or zips with starters.", show_default=False)
    ],
    seed: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Repeat a run. Default: a new secret one, shown at the end.")
    ] = None,
    phase: Annotated[str | None, typer.Option(metavar="K or K-M", help="Default: all phases.")] = None,
    situations: Annotated[int, typer.Option(min=1, help="Number of situations in each test group.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.5, help="For one situation; slow machines need more.")] = 10.0,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write everything as JSON.")] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write a line per submission.")] = None,
    feedback: Annotated[Path | None, typer.Option(metavar="DIR", help="Write a text per submission.")] = None,
    reveal: Annotated[bool, typer.Option("--reveal", help="Include the seed in the feedback.")] = False,
    no_jail: Annotated[bool, typer.Option("--no-jail", help="Without isolation, for files that you trust.")] = False,
) -> None:
    """For teachers: grade submissions on secret situations, each phase alone, in jailed workers.

    Exit code 0: all graded, whatever the points. 1: a submission could not be read. 2: bad usage, or no jail.
    """
    if os.name != "posix":
        raise ValueError("the judge needs Linux (WSL2 on Windows): its workers are limited by Unix means")
    if not solutions_exist():
        raise ValueError("the judge needs solutions/: this is a student edition")
    numbers = chosen_phases(phase, len(PHASE_NAMES))
    for file in (json_file, csv_file):
        if file is not None and not file.resolve().parent.is_dir():
            raise ValueError(f"{file}: the folder {file.parent} does not exist")
    taken = read_submissions(submissions)
    jail = Jail() if no_jail else find_jail()
    if jail.is_a_jail:
        require_jail(jail)
    shown = make_console(stderr=True)
    if no_jail:
        shown.print(NOT_ISOLATED, style="bold red", soft_wrap=True)
    seed = seed or secrets.token_hex(16)
    grades: list[SubmissionGrade] = []
    report = Report(seed, situations, jail.is_a_jail, grades)
    with progress(shown, len(taken)) as begin_bar:
        grader = Judge(seed, jail, situations, seconds, numbers)
        for submission in taken:
            grader.on_progress = begin_bar(submission.name, grader.num_situations)
            grades.append(grader.grade(submission))
            write_files(report, json_file=json_file, csv_file=csv_file, folder=feedback, reveal=reveal)
    console = make_console()
    console.print(class_table(report))
    isolation = "isolated" if jail.is_a_jail else "NOT isolated"
    size = f"{situations} situations in each of {len(grader.groups)} groups"
    console.print(f"\n{size}, {isolation}. The same again: --seed {seed}", markup=False, soft_wrap=True)
    for grade in grades:
        if grade.error:
            console.print(f"{grade.name}: {grade.error}", markup=False, style="red", soft_wrap=True)
    if any(grade.error for grade in grades):
        raise typer.Exit(1)


class Bars:
    """Shows the progress of each submission as a bar; prints a line for each without a terminal."""

    def __init__(self, console: Console, bars: Progress | None, num_submissions: int) -> None:
        self._console = console
        self._bars = bars
        self._number = 0
        self._total = num_submissions
        self._all = bars.add_task("submissions", total=num_submissions, what="") if bars else None

    def __call__(self, name: str, num_situations: int) -> "ProgressBar":
        """Start a submission; return the callback for its bar."""
        self._number += 1
        if self._bars is None or self._all is None:
            self._console.print(f"{self._number}/{self._total} {name}", markup=False)
            return ProgressBar(None, None)
        self._bars.update(self._all, completed=self._number - 1)
        return ProgressBar(self._bars, self._bars.add_task(name.replace("[", "("), total=num_situations, what=""))


class ProgressBar:
    """Moves a bar."""

    def __init__(self, bars: Progress | None, task: object) -> None:
        self._bars = bars
        self._task = task

    def __call__(self, what: str, done: int) -> None:
        if self._bars is not None:
            self._bars.update(self._task, completed=done, what=what)  # type: ignore[arg-type]


@contextmanager
def progress(console: Console, num_submissions: int) -> Iterator[Bars]:
    """Show bars while the block runs."""
    if not is_live(console):
        yield Bars(console, None, num_submissions)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[what]}"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        yield Bars(console, bars, num_submissions)
