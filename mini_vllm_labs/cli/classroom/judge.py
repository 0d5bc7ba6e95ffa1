"""`mini-vllm judge` grades a class in isolation, with the same rules for everyone. The student edition does not contain
this command."""

import os
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from mini_vllm_labs.classroom.export.gradebooks import Gradebooks
from mini_vllm_labs.classroom.export.own_tests import OwnTests
from mini_vllm_labs.classroom.export.vivas import Vivas
from mini_vllm_labs.classroom.judge.class_run import (
    ClassRun,
    GradingProcess,
    Record,
    RecordedResult,
    SubmissionGrader,
    recorded_settings,
)
from mini_vllm_labs.classroom.judge.cluster import ClusterGrader
from mini_vllm_labs.classroom.judge.jail import find_jail
from mini_vllm_labs.classroom.judge.probe import require_jail
from mini_vllm_labs.classroom.judge.report import (
    class_table,
    missed_table,
    require_writable,
    write_feedback,
    write_tables,
)
from mini_vllm_labs.classroom.judge.results import ClassResults
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from mini_vllm_labs.classroom.judge.submission import HandedIn, name_submissions
from mini_vllm_labs.cli.classroom.options import JudgeOptions
from mini_vllm_labs.pictures.terminal.console import friendly, is_live, make_console
from mini_vllm_labs.pictures.terminal.option_groups import with_option_groups


class ClassProgress:
    """Moves a progress bar in a terminal; elsewhere, prints a line per finished submission."""

    def __init__(self, console: Console, bars: Progress | None, total: int) -> None:
        self._console = console
        self._bars = bars
        self._total = total
        self._num_done = 0
        self._start = time.monotonic()
        self._lock = threading.Lock()
        self._class = bars.add_task("submissions", total=total, what="") if bars else None
        self._rows: dict[str, TaskID] = {}

    def situation(self, name: str, what: str, done: int) -> None:
        """Show which task of which submission is being graded. Several threads call this method."""
        if self._bars is None:
            return
        with self._lock:
            if name not in self._rows:
                self._rows[name] = self._bars.add_task(Text(name).markup, total=None, what="")
            self._bars.update(self._rows[name], completed=done, what=what)

    def told(self, sentence: str) -> None:
        self._console.print(sentence, style="bold red", markup=False, soft_wrap=True)

    def finished(self, name: str, seconds: float) -> None:
        self._num_done += 1
        if self._bars is not None and self._class is not None:
            self._bars.update(self._class, completed=self._num_done)
            with self._lock:
                if name in self._rows:
                    self._bars.remove_task(self._rows.pop(name))
            return
        left = (time.monotonic() - self._start) / self._num_done * (self._total - self._num_done)
        text = f"{self._num_done}/{self._total} {name}: {seconds:.0f} s; about {left / 60:.0f} min left"
        self._console.print(text, markup=False, soft_wrap=True)


@contextmanager
def class_progress(console: Console, num_submissions: int) -> Iterator[ClassProgress]:
    if not is_live(console):
        yield ClassProgress(console, None, num_submissions)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[what]}"))
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bars:
        yield ClassProgress(console, bars, num_submissions)


NOT_ISOLATED = "NOT ISOLATED: --no-jail lets submissions read, write and send whatever you can, even the solutions."


@dataclass(frozen=True)
class ResultFiles:
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write everything as JSON.")] = None
    csv_file: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write a line per submission.")] = None
    feedback: Annotated[Path | None, typer.Option(metavar="DIR", help="Write a text per submission.")] = None
    roster: Annotated[Path | None, typer.Option(metavar="FILE", help="CSV: submission, student id.")] = None
    canvas: Annotated[Path | None, typer.Option(metavar="FILE", help="Write CSV for Canvas; needs --roster.")] = None
    moodle: Annotated[Path | None, typer.Option(metavar="FILE", help="Write CSV for Moodle; needs --roster.")] = None
    viva: Annotated[Path | None, typer.Option(metavar="DIR", help="Add points of the vivas in NAME.json.")] = None
    tests: Annotated[Path | None, typer.Option(metavar="DIR", help="Add points of grade-tests in NAME.json.")] = None
    reveal: Annotated[bool, typer.Option("--reveal", help="Include the seed in the feedback.")] = False

    def extras(self) -> list[Vivas | OwnTests]:
        """Read the points that come from other commands. Raises `ValueError` for a folder that contains no points."""
        vivas = [] if self.viva is None else [Vivas.read(self.viva)]
        return [*vivas, *([] if self.tests is None else [OwnTests.read(self.tests)])]

    def require_writable(self, resume: Path | None) -> None:
        """Raise `ValueError`, before the class is graded, if an output or the record cannot be written."""
        require_writable([self.json_file, self.csv_file, self.canvas, self.moodle, resume], self.feedback)


@friendly
@with_option_groups
def judge(
    submissions: Annotated[
        list[Path],
        typer.Argument(metavar="SUBMISSION...", help="Starters, folders or archives of them.", show_default=False),
    ],
    *,
    context: typer.Context,
    options: JudgeOptions,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Submissions graded at once. Default: one per CPU; --dask: two.", show_default=False),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Keep finished work in this file; if it exists, continue with its seed and settings."
        ),
    ] = None,
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Grade on a Dask cluster instead of this machine's cores.")
    ] = None,
    files: ResultFiles,
) -> None:
    """Grade submissions on secret situations.

    Each phase is graded on its own, in jailed workers.

    Exit code 0: all graded, whatever the points. 1: a submission could not be read. 2: bad usage, or no jail.
    """
    if os.name != "posix":
        raise ValueError("the judge needs Linux (WSL2 on Windows): it limits its workers with Unix tools")
    settings = options.settings()
    files.require_writable(resume)
    extras = files.extras()
    gradebooks = Gradebooks.wanted(files.roster, files.canvas, files.moodle)
    handed_in = name_submissions(submissions)
    shown = make_console(stderr=True)
    if resume is not None and resume.exists():
        sources = {name: context.get_parameter_source(name) for name in OPTIONS}
        given = [name for name, source in sources.items() if source and source.name != "DEFAULT"]
        settings = continued(resume, settings, given)
        shown.print(f"Continuing {resume} with its seed and settings.", markup=False, soft_wrap=True)
    record = Record(settings, resume)
    if not settings.jailed:
        shown.print(NOT_ISOLATED, style="bold red", soft_wrap=True)
    elif dask is None:
        require_jail(find_jail())
    with class_progress(shown, len(handed_in)) as progress:
        graders = graders_for(settings, progress, jobs, dask)
        class_run = ClassRun(settings, record, graders)
        note = seed_note(settings) if files.reveal else ""
        results, unwritten = run(class_run, handed_in, progress, files.feedback, note)
    summaries = [results[one.name]["summary"] for one in handed_in]
    report = ClassResults(settings.seed, settings.situations, settings.jailed, summaries)
    show(make_console(), report)
    for extra in extras:
        report, notes = extra.added_to(report)
        for note in notes:
            shown.print(f"{note}, so it has no points", markup=False, soft_wrap=True)
    unwritten += write_tables(report, json_file=files.json_file, csv_file=files.csv_file)
    if gradebooks is not None:
        unwritten += gradebooks.write(report)
        for left_out in gradebooks.left_out(report):
            shown.print(f"{left_out}, so left out of the gradebooks", markup=False, soft_wrap=True)
    if unwritten:
        again = "" if resume else f" For the same again: --seed {settings.seed}"
        raise ValueError("; ".join(sorted(set(unwritten))) + again)
    if any(summary["error"] for summary in summaries):
        raise typer.Exit(1)


def graders_for(
    settings: JudgeSettings, progress: ClassProgress, jobs: int | None, dask: str | None
) -> Sequence[SubmissionGrader]:
    """Return one grader per concurrently graded submission; by default, one per processor."""
    if dask is None:
        return [GradingProcess(settings, progress.situation) for _ in range(jobs or os.cpu_count() or 1)]
    cluster = ClusterGrader(dask, settings, progress.told)
    return [cluster] * (jobs or cluster.num_at_once())


def run(
    class_run: ClassRun, handed_in: list[HandedIn], progress: ClassProgress, folder: Path | None, note: str
) -> tuple[dict[str, RecordedResult], list[str]]:
    """Grade all submissions, and write each one's feedback, including `note`, as soon as it is ready.

    Returns the results, keyed by name, and the reasons why some feedback could not be written; failing to write
    feedback does not end the run.
    """
    results: dict[str, RecordedResult] = {}
    unwritten = list[str]()
    for name, result in class_run.results(handed_in):
        results[name] = result
        progress.finished(name, result["seconds"])
        if folder is not None:
            head, _, rest = result["feedback"].partition("\n")
            try:
                write_feedback(folder, name, f"{head}\n{note}{rest}")
            except ValueError as error:
                unwritten.append(str(error))
    return results, unwritten


# Options that affect the points, and their settings. `--no-jail` is always compared.
OPTIONS = {"seed": "seed", "situations": "situations", "seconds": "seconds", "minutes": "minutes", "phase": "phases"}


def continued(path: Path, asked: JudgeSettings, given: Collection[str]) -> JudgeSettings:
    """Return a record's settings. Raises `ValueError` if the given options or the jail differ from the record's."""
    settings = recorded_settings(path)
    differ = [
        f"with a different --{name}"
        for name in given
        if getattr(asked, OPTIONS[name]) != getattr(settings, OPTIONS[name])
    ]
    if asked.jailed != settings.jailed:
        differ.append(f"{'without' if settings.jailed else 'with'} --no-jail")
    if differ:
        raise ValueError(f"{path} contains a run {differ[0]}: use the same options, or name a different file")
    return settings


def seed_note(settings: JudgeSettings) -> str:
    """Return the line in the feedback that says how to repeat a learner's situations."""
    return f"Seed: {settings.seed}, {settings.situations} situations in each group.\n"


def show(console: Console, report: ClassResults) -> None:
    """Print the class table, how to repeat the run, and which submissions could not be read."""
    console.print(class_table(report))
    if (missed := missed_table(report)) is not None:
        console.print(missed)
    isolation = "isolated" if report.jailed else "NOT isolated"
    size = f"{report.per_group} situations in each group"
    console.print(f"\n{size}, {isolation}. The same again: --seed {report.seed}", markup=False, soft_wrap=True)
    for summary in report.submissions:
        if summary["error"]:
            console.print(f"{summary['name']}: {summary['error']}", markup=False, style="red", soft_wrap=True)
