"""Builds notices about starters that are unwritten or that Python cannot parse."""

import ast
from dataclasses import astuple

from mini_vllm.assembly.lineup import ALL_NAMES, Lineup
from mini_vllm.assembly.parts import Impl, solutions_exist
from mini_vllm_labs.notebook.notice import Notice
from mini_vllm_labs.notebook.recorded_mark import mark_of
from mini_vllm_labs.runs.sandbox.explain import shown_path
from mini_vllm_labs.runs.starter_status import describe, starter_path, unwritten_tasks


def first_missing(lineup: Lineup) -> int:
    """Return the first phase of the lineup's starters with an unwritten task, or 0 if all tasks are written."""
    return next((phase for phase in starters_of(lineup) if unwritten_tasks(phase)), 0)


def starters_of(lineup: Lineup) -> list[int]:
    return [phase for phase, impl in enumerate(astuple(lineup), start=1) if impl == "starter"]


def mark_for(lineup: Lineup) -> str:
    """Return the mark that labels a lineup's results; empty unless one of its starters has an unwritten task."""
    missing = first_missing(lineup)
    return mark_of(missing) if missing else ""


def whose_code(lineup: Lineup) -> str:
    return f"Whose code runs: {describe(lineup)}"


def code_that_ran(lineup: Lineup) -> str:
    return f"It ran with {describe(lineup)}.\nThe graded tests give details: lab.test()"


def broken_starter(lineup: Lineup) -> Notice | None:
    """Return a `Notice` with the broken line of the first starter that Python cannot parse, or None."""
    for phase in starters_of(lineup):
        path = starter_path(phase)
        try:
            ast.parse(path.read_bytes(), str(path))
        except SyntaxError as error:
            return Notice(f"{shown_path(path)}, line {error.lineno}: Python cannot read this line", broken_line(error))
        except (OSError, ValueError, RecursionError) as error:
            return Notice(f"{shown_path(path)} cannot be read", str(error))
    return None


def broken_line(error: SyntaxError) -> str:
    """Return the line, with a caret at the position of the error, and Python's message."""
    message = f"{type(error).__name__}: {error.msg}"
    if error.text is None or error.offset is None:
        return message
    line = error.text.rstrip("\r\n").expandtabs()
    indent = len(line) - len(line.lstrip())
    end = error.end_offset if error.end_lineno == error.lineno and error.end_offset else error.offset + 1
    caret = " " * max(0, error.offset - 1 - indent) + "^" * max(1, min(end, len(line) + 1) - error.offset)
    return f"{line.lstrip()}\n{caret}\n{message}\nFix it, save the file, and run this cell again."


def notice_of(phase: int, notebook_phase: int, whole: Lineup) -> Notice:
    """Return the notice at the top of a notebook whose first unwritten phase is `phase`."""
    folder = starter_path(phase).parent.name
    lines = [
        f"Next is {unwritten_tasks(phase)[0]}.",
        f"Read   labs/{folder}/README.md",
        f"Write  labs/{folder}/starter.py",
        "Until then the cells below show recorded runs of the reference, marked as such.",
    ]
    hint = line_to_borrow(notebook_phase, whole)
    if hint:
        lines.append("To run the reference itself, with settings of your own, put this line in a cell and run it:")
    title = f"This notebook needs phase {phase} ({ALL_NAMES[phase - 1]}), which is not written yet"
    return Notice(title, "\n".join(lines), hint)


def line_to_borrow(notebook_phase: int, whole: Lineup) -> str:
    """Return a line of code that borrows all unwritten phases from the reference; empty in a student edition."""
    if not solutions_exist():
        return ""
    borrowed: list[Impl] = [
        "solution" if impl == "starter" and unwritten_tasks(phase) else impl
        for phase, impl in enumerate(astuple(whole), start=1)
    ]
    return f'lab = Lab(phase={notebook_phase}, lineup="{Lineup(*borrowed)}")'
