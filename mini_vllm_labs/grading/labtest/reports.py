"""Reports the graded tests, showing only the learner's lines of a traceback, and one line per unwritten task."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from _pytest._code.code import ReprEntryNative, ReprExceptionInfo, ReprFileLocation, ReprTraceback

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.grading.plan import (
    PlannedPhase,
    PlannedTask,
    cell_command,
    impl_prefix,
    load_whole_plan,
    task_command,
)
from mini_vllm_labs.runs.sandbox import IN_BROWSER
from mini_vllm_labs.runs.sandbox.errors import StarterNotLoadedError
from mini_vllm_labs.runs.sandbox.explain import explain, headline, is_not_written, shown_path
from mini_vllm_labs.runs.sandbox.frames import learners_frames
from mini_vllm_labs.runs.starter_status import phase_in

MAX_LINES = 40


def phase_of(node_id: str) -> int:
    """Return the phase of a graded test, or 0 for any other test."""
    return phase_in(node_id.partition("labs/")[2].partition("/")[0])


def rule_of(item: pytest.Item) -> str:
    """Return a test's rule: its name as a sentence, with its case."""
    name, bracket, case = item.name.partition("[")
    words = name.removeprefix("test_").replace("_", " ")
    return f"{words[:1].upper()}{words[1:]}" + (f" ({case.removesuffix(']')})" if bracket else "") + "."


@cache
def names_of(phase: int) -> Mapping[str, str]:
    return next((plan.names for plan in load_whole_plan() if plan.number == phase), {})


def line_in(error: BaseException) -> int | None:
    """Return the last line of the learner's file that an exception passed through."""
    frames = learners_frames(error.__traceback__)
    return frames[-1][1] if frames else None


def retell(report: Any, item: pytest.Item, error: BaseException) -> None:
    """Replace the traceback with a text for the learner, if the learner's code contributed to the failure."""
    if isinstance(error, pytest.fail.Exception | pytest.skip.Exception):
        return
    if is_not_written(error):
        report.not_written = unwritten(error)
        report.longrepr = words(item.location, f"NotImplementedError: {error}", f"NotImplementedError: {error}")
    elif isinstance(error, StarterNotLoadedError):
        report.not_loaded = str(error)
        report.longrepr = words(item.location, str(error), str(error))
    else:
        text = explain(error, names_of(phase_of(item.nodeid)))
        is_about_yours = not text.startswith(headline(error)) or "\n  expected: " in text
        if learners_frames(error.__traceback__) or is_about_yours:
            report.longrepr = words(item.location, headline(error), f"{rule_of(item)}\n\n{text}")


def words(location: tuple[str, int | None, str], first_line: str, text: str) -> ReprExceptionInfo:
    """Build a failure that consists only of a text; `first_line` appears in the summary."""
    path, line, _ = location
    crash = ReprFileLocation(path, (line or 0) + 1, first_line)
    return ReprExceptionInfo(ReprTraceback([ReprEntryNative([f"{text}\n"])], None, style="value"), crash)


def unwritten(error: BaseException) -> dict[str, str]:
    """Return the unwritten task and its location in the file."""
    frames = learners_frames(error.__traceback__)
    if not frames:
        return {"task": str(error), "where": ""}
    frame, line = frames[-1]
    code = frame.f_code
    where = f"{shown_path(Path(code.co_filename))}, lines {code.co_firstlineno} to {line}"
    return {"task": str(error), "where": where}


def tell_what_is_missing(reporter: pytest.TerminalReporter) -> None:
    """Print the tests of unwritten tasks, one per line, and the next step."""
    reports = reporter.getreports("not written")
    if reports:
        reporter.section("not written yet", sep="-", yellow=True)
        for line in missing_lines([(report.location[2], report.not_written["task"]) for report in reports]):
            reporter.write_line(line)
        for line in next_lines(reports[0]):
            reporter.write_line(line, bold=True)
    for text in dict.fromkeys(report.not_loaded for report in reporter.getreports("not loaded")):
        reporter.section("your file cannot be imported", sep="-", red=True)
        reporter.write_line(text)


def missing_lines(tests: Sequence[tuple[str, str]]) -> list[str]:
    """Return a line per test, or a line per task if there are many tests."""
    if len(tests) <= MAX_LINES:
        return [f"{task}   ({name})" for name, task in tests]
    return [f"{task}   ({count} tests)" for task, count in Counter(task for _, task in tests).items()]


def next_lines(report: Any) -> list[str]:
    """Return the next step for the first unwritten task."""
    task, where = report.not_written["task"], report.not_written["where"]
    folder = Path(report.nodeid.partition("::")[0]).parent.as_posix()
    numbers = re.match(r"Phase (\d+), tasks? (\d+)", task)
    marker = f"task{numbers[1]}_{numbers[2]}" if numbers else ""
    graded = Path(report.nodeid.partition("::")[0]).name.startswith("test_")
    target = f"{folder} -m {marker}" if graded and marker else report.nodeid.partition("::")[0]
    command = f"{impl_prefix()}pytest {target}"
    if IN_BROWSER and numbers:
        command = cell_command(int(numbers[1]), int(numbers[2]))
    return [
        f"next: {task}",
        f"      open {where}" if where else "",
        f"      the task: {folder}/README.md" if (CHECKOUT / folder / "README.md").is_file() else "",
        f"      then: {command}",
    ]


def tell_what_is_next(reporter: pytest.TerminalReporter) -> None:
    """Print the task after the last completed one; print nothing if any test did not pass."""
    passed = {report.nodeid for report in reporter.getreports("passed")}
    if any(reporter.getreports(kind) for kind in ("failed", "error", "not written", "not loaded", "skipped")):
        return
    tasks = [(phase, task) for phase in load_whole_plan() for task in phase.tasks]
    done = [index for index, (phase, task) in enumerate(tasks) if is_done(phase, task, passed)]
    if not done:
        return
    phase, task = tasks[done[-1]]
    reporter.write_line(f"Task {phase.number}.{task.number} is done.", green=True, bold=True)
    later = tasks[done[-1] + 1 :]
    if not later or later[0][0] is not phase:
        where = ", in a local installation," if IN_BROWSER else ","
        reporter.write_line(
            f"next: mini-vllm grade{where} which runs phase {phase.number} in whole engines too", bold=True
        )
    else:
        reporter.write_line(f"next: task {phase.number}.{later[0][1].number} ({phase.folder}/README.md)", bold=True)
        reporter.write_line(f"      {task_command(*later[0])}", bold=True)


def is_done(phase: PlannedPhase, task: PlannedTask, passed: Set[str]) -> bool:
    """Return whether all tests of a task are in `passed`, a set of test ids."""
    return {f"{phase.folder}/{test}" for test in task.tests} <= passed
