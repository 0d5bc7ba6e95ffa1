"""The terminal of `mini-vllm watch`: reads single keys, and prints verdicts, tasks, ticks, engine steps and available
keys."""

import os
import re
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.cli.watching.session import WatchSession, line_of
from mini_vllm_labs.fresh.shown_run import ShownRun
from mini_vllm_labs.grading.approaches import Approach
from mini_vllm_labs.grading.plan import PlannedPhase
from mini_vllm_labs.grading.results import EngineCheck, PhaseGrade, TaskGrade
from mini_vllm_labs.grading.view import handout, heading, show_check, show_failure, show_text, why_not_graded
from mini_vllm_labs.pictures.terminal.step_view import FAINT, STRONG, render_step

ESCAPE = "\x1b"  # the codes of arrow and function keys start with this character
Read = Callable[[float], str]
HEADING = re.compile(r"^### Task (\d+\.\d)[ ,:]*(.*)$", re.MULTILINE)
STYLES = {"passed": "green", "stale": "yellow", "open": "dim"}


@contextmanager
def keys() -> Iterator[Read | None]:
    """Yield a function that returns the keys pressed within a given time, or None if no keys can be read.

    No keys can be read if there is no terminal, if the process is in the background, or on Windows. Ctrl-C and Ctrl-Z
    work as usual; SIGTERM and closing the terminal end the block as Ctrl-C does.
    """
    if sys.platform == "win32":
        yield None
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        is_ours = os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        is_ours = False
    if not is_ours:
        yield None
        return
    import termios
    import tty

    before = termios.tcgetattr(0)
    try:
        tty.setcbreak(0)
        # A shell restores the terminal settings when a program continues after Ctrl-Z.
        signal.signal(signal.SIGCONT, lambda *_: tty.setcbreak(0))
        yield pressed
    finally:
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        termios.tcsetattr(0, termios.TCSAFLUSH, before)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def pressed(seconds: float) -> str:
    if not select.select([0], [], [], seconds)[0]:
        return ""
    read = os.read(0, 64).decode(errors="ignore")
    return "" if read.startswith(ESCAPE) else read or "q"  # an empty read means that the terminal is gone


def title(phase: PlannedPhase, number: int) -> str:
    """Return a task's name and its title in the handout: "1.2 schedule_step, RUNNING (18 lines, 30 minutes)"."""
    name = f"{phase.number}.{number}"
    try:
        titles = dict(HEADING.findall((CHECKOUT / handout(phase)).read_text(encoding="utf-8")))
    except OSError:
        titles = {}
    return f"{name} {titles.get(name, '').replace('`', '')}".strip()


def mark(console: Console, state: str) -> str:
    """Return the symbol for a state: a tick, an outdated tick, or a dot."""
    signs = {"passed": "✓", "stale": "~", "open": "·"} if "utf" in console.encoding else {"passed": "+", "stale": "~"}
    return signs.get(state, ".")


def show_verdict(console: Console, grade: PhaseGrade, seconds: float | None = None) -> None:
    """Print whose file was graded, the time taken, the verdict on each task, and the first failure with its reason."""
    console.print(Rule(Text(f"{datetime.now():%H:%M:%S}", FAINT), align="left", style=FAINT))
    cost = "" if seconds is None else f", in {seconds:.1f} CPU s"
    console.print(f"Graded: your {grade.plan.starter}{cost}", style=FAINT, markup=False)
    if grade.error:
        show_failure(console, grade)
        return
    for task in grade.tasks:
        show_task_verdict(console, grade, task)
    if grade.is_untouched:
        return
    show_failure(console, grade)
    unwritten = [test for task in grade.tasks for test in task.tests if test.outcome == "not started"]
    if unwritten and not any(test.outcome == "failed" for task in grade.tasks for test in task.tests):
        console.print("  The tests that fail reach what is not written yet:", style=FAINT)
        show_text(console, unwritten[0].message)


def show_task_verdict(console: Console, grade: PhaseGrade, task: TaskGrade) -> None:
    num_passed, total = sum(test.outcome == "passed" for test in task.tests), len(task.tests)
    name = title(grade.plan, task.plan.number)
    if task.status == "passed":
        console.print(f"{mark(console, 'passed')} {name}: all {total} tests pass", style="green", markup=False)
    elif task.status == "not started":
        show_unwritten(console, grade.plan, task.plan.number)
    else:
        num_left = sum(test.outcome == "not run" for test in task.tests)
        rest = f"; {num_left} not run" if num_left else ""
        console.print(f"  {name}: {num_passed} of {total} tests pass{rest}", style="red", markup=False)


def show_unwritten(console: Console, phase: PlannedPhase, task: int) -> None:
    """Print the next task to write, and where it is explained."""
    console.print(f"Write {title(phase, task)}", style=STRONG, markup=False)
    console.print(f"  in   {phase.starter}{line_of(phase, task)}", markup=False, soft_wrap=True)
    console.print(f"  read {handout(phase)}, 'Task {phase.number}.{task}'", markup=False, soft_wrap=True)


def show_list(console: Console, session: WatchSession) -> None:
    """Print every task with its tick."""
    for task in session.tasks:
        phase, state = session.phases[task.phase], session.state(task)
        if task.number == 1:
            console.print(f"\n{phase.number} {phase.name}", style=STRONG, markup=False)
        arrow = "  <- now" if task == session.current else ""
        console.print(f"  {mark(console, state)} {title(phase, task.number)}{arrow}", style=STYLES[state], markup=False)
    console.print("~ passed before its file was changed; it is graded again before you go on", style=FAINT)


def tick_line(console: Console, session: WatchSession) -> str:
    """Return the ticks of all tasks by phase: "1 ✓✓··· 2 ·····"."""
    marks = [f"   {task.phase} " * (task.number == 1) + mark(console, session.state(task)) for task in session.tasks]
    return "".join(marks).strip()


def show_stack(console: Console, phase: int, check: EngineCheck, seconds: float) -> None:
    """Print the verdict on a phase that ran in one engine with the learner's earlier phases."""
    known = {"passed": ("runs", "green"), "failed": ("fails", "red")}
    words, style = known.get(check.status, ("is not tried yet", "dim"))
    with_others = "in an engine" if phase == 1 else "in one engine with your phases before it"
    console.print(f"Phase {phase} {words} {with_others} ({seconds:.1f} CPU s).", style=style)
    if why := why_not_graded(check):
        console.print(f"  because {why}", markup=False)
    if check.status == "failed":
        show_check(console, check)
        console.print(f"  mini-vllm grade --phase 1-{phase} names the phase at fault", style=FAINT)


def show_step(console: Console, run: ShownRun, step: int) -> None:
    """Print one step of a run as `mini-vllm demo` draws it."""
    console.print()
    console.print("\n".join([run.whose, *run.remarks]), markup=False, style=FAINT)
    if not run.recording.steps:
        console.print("The run has no step: nothing could be scheduled.")
        return
    console.print(
        render_step(run.recording.state(step), console.width - 1, f"A run of {len(run.recording.steps)} steps")
    )


def show_approach(console: Console, task: str, found: list[Approach], number: int) -> None:
    """Print one of the other ways to solve a task."""
    from rich.syntax import Syntax

    one = found[number]
    heading(console, f"Task {task}, another way, {number + 1} of {len(found)}: {one.name}")
    console.print(one.cost, markup=False)
    console.print(Syntax(one.code, "python", theme="ansi_dark", background_color="default", word_wrap=True))
