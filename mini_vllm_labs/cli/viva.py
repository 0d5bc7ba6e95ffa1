"""`mini-vllm viva` asks eight questions in ten minutes about your own files and your own run."""

import secrets
import threading
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.pictures.terminal.console import friendly, make_console
from mini_vllm_labs.pictures.terminal.progress import reported
from mini_vllm_labs.pictures.terminal.step_view import STRONG
from mini_vllm_labs.pictures.terminal.typed_lines import typed_lines, typed_number
from mini_vllm_labs.viva.files import Files, read_files
from mini_vllm_labs.viva.make_sheet import make_sheet
from mini_vllm_labs.viva.sheet import Sheet, options_of

SECONDS = 600.0


@friendly
def viva(
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="Somebody else's starters. Default: yours.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of run and questions. Default: a new one.")] = None,
    requests: Annotated[int, typer.Option(min=1, max=40, help="Number of requests in the run.")] = 8,
    practice: Annotated[bool, typer.Option("--practice", help="Show the answer and the run after each one.")] = False,
    sheet: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write questions, answers and times here, and as FILE.md.")
    ] = None,
    blank: Annotated[bool, typer.Option("--blank", help="Only write the sheet, without asking questions.")] = False,
    check: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Recompute this sheet's right answers and compare.")
    ] = None,
) -> None:
    """Answer eight questions about your own files and your own run, in ten minutes.

    Every right answer is computed by running your files, in some cases with changes. Your files must pass their tests.

    Type a number; an empty line skips a question, and /quit ends the viva. The same files and seed give the same
    questions.

    Exit code 1: with --check, the sheet is for different files or has different answers.
    """
    console = make_console()
    if (blank and sheet is None) or (blank and practice):
        raise ValueError("--blank only writes an empty sheet: add --sheet FILE.json, and leave out --practice")
    if sheet is not None and (sheet.suffix != ".json" or not sheet.resolve().parent.is_dir()):
        raise ValueError(f"--sheet {sheet}: name a .json file in an existing folder")
    old = None if check is None else Sheet.from_json(check.read_text(encoding="utf-8"))
    files = read_files(folder or CHECKOUT)
    if folder is None:
        require_passing(files)
    if old is not None:
        seed, requests = old.seed, old.requests
    with reported("Running your files, as they are and changed"):
        found = make_sheet(files, secrets.randbelow(10**6) if seed is None else seed, requests)
    if old is not None:
        if not old.is_about_the_same(found):
            console.print("Another sheet: the files, their run or a right answer differ.", markup=False)
            raise typer.Exit(1)
        console.print(f"The same questions and right answers: {old.points} of {len(old.questions)} are right.")
        return
    if not blank:
        console.print("\n".join(found.preface()), markup=False)
        ask(console, found, practice=practice)
    if sheet is not None:
        sheet.write_text(found.as_json(), encoding="utf-8")
        sheet.with_suffix(".md").write_text(found.as_text(), encoding="utf-8")


def require_passing(files: Files) -> None:
    """Raise `ValueError` unless the checkout's starters pass their graded tests."""
    from mini_vllm_labs.grading.grader import grade_tests
    from mini_vllm_labs.grading.plan import load_whole_plan

    for phase in load_whole_plan():
        if phase.number in files.texts:
            with reported(f"Grading phase {phase.number}"):
                grade = grade_tests(phase, threading.Event())
            if not grade.is_complete:
                raise ValueError(
                    f"viva needs a passing phase {phase.number}: run mini-vllm grade --phase {phase.number} first"
                )


def ask(console: Console, sheet: Sheet, *, practice: bool) -> None:
    """Ask the questions, and record the answers and the seconds, until the input ends or time runs out."""
    typed, start = typed_lines("answer: "), time.monotonic()
    for number, question in enumerate(sheet.questions, start=1):
        if not practice and time.monotonic() - start > SECONDS:
            console.print("Ten minutes are over.", style=STRONG)
            break
        since = time.monotonic()
        heading = f"\n{number} of {len(sheet.questions)}: {question.text}"
        console.print(heading, style=STRONG, markup=False, soft_wrap=True)
        console.print("\n".join(options_of(question)), markup=False, soft_wrap=True)
        line = typed_number(console, typed, "an answer", len(question.options), may_skip=True)
        if line is None:
            break
        sheet.given.append(int(line) if line else None)
        sheet.seconds.append(round(time.monotonic() - since, 1))
        if practice:
            verdict = "Right" if sheet.given[-1] == question.right else f"No: {question.right}"
            console.print("\n    ".join([f"{verdict}. The run with the answer:", *question.shown]), markup=False)
    score = f"\n{sheet.points} of {len(sheet.questions)} right, seed {sheet.seed}."
    console.print(score, style=STRONG, markup=False, highlight=False)
