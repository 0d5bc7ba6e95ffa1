"""Shows the graded tests in a cell: a dot per test, the failures, and links to the starter's lines."""

import ast
import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from mini_vllm.assembly.lineup import CHECKOUT, Lineup
from mini_vllm_labs.fresh.process import interruptible
from mini_vllm_labs.runs.palette import color, ink_on
from mini_vllm_labs.runs.sandbox import IN_BROWSER
from mini_vllm_labs.runs.sandbox.browser import forget_learners_code
from mini_vllm_labs.runs.sandbox.worker import WorkerProcess
from mini_vllm_labs.runs.starter_status import starter_path

DEFINITIONS = (ast.FunctionDef, ast.ClassDef)
Result = Mapping[str, Any]
SIGNS = {"passed": "✓", "failed": "✕", "not loaded": "✕"}
KINDS = {"passed": "passed", "failed": "failed", "not loaded": "failed"}
SECONDS = 300
OUTPUT_BYTES = 200_000
PLUGIN = "mini_vllm_labs.grading.labtest.report_file"


@dataclass(frozen=True)
class GradedTests:
    """pytest's outcome for a phase or a task. It is truthy if all tests passed.

    `results` come from `mini_vllm_labs/grading/labtest/report_file.py`, and are empty if the tests ended early.
    """

    command: str
    passed: bool
    text: str
    lineup: Lineup
    phase: int
    results: Sequence[dict[str, Any]] = ()

    @classmethod
    def run(cls, phase: int, task: int | None, lineup: Lineup) -> Self:
        """Run the tests on the lineup's code, in a separate process."""
        folder = f"labs/{starter_path(phase).parent.name}"
        chosen = [folder, *(() if task is None else ("-m", f"task{phase}_{task}"))]
        command = f"LAB_IMPL={lineup} pytest {' '.join(chosen)}"
        # pytest is not attached to a terminal, so it cannot measure the width
        environment = os.environ | {"LAB_IMPL": str(lineup), "COLUMNS": "100"}
        with TemporaryDirectory() as place:
            file = Path(place, "report.json")
            options = ["-q", "-p", "no:cacheprovider", "--color=no", "-p", PLUGIN, "--lab-report", str(file)]
            run_pytest = pytest_here if IN_BROWSER else pytest_there
            status, text = run_pytest([*options, *chosen], environment)
            results = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
        return cls(command, status == 0, text, lineup, phase, results)

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return f"{self.command}\n{self.text}"

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        whose = {"starter": "your code", "solution": "the reference's code"}.get(self.lineup[self.phase], "no code")
        return {"text/html": graded_page(self.results, self.phase, whose, repr(self)), "text/plain": repr(self)}


def pytest_there(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[int | None, str]:
    """Run pytest in a separate process; return its exit status (None if it did not finish) and its output."""
    command = [sys.executable, "-m", "pytest", *arguments]
    with (
        interruptible("the tests were"),
        WorkerProcess(command, env=environment, has_channel=False, output_bytes=OUTPUT_BYTES) as worker,
    ):
        if not worker.wait(SECONDS):
            return None, f"The tests did not end within {SECONDS} seconds."
        return worker.status, worker.output


def pytest_here(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[int | None, str]:
    """Run pytest in this process, because a browser cannot start other processes. Each test has a separate time
    limit."""
    import pytest

    before, folder, printed = dict(os.environ), Path.cwd(), io.StringIO()
    forget_learners_code()
    os.environ.update(environment)
    os.chdir(CHECKOUT)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            status = pytest.main(list(arguments))
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(before)
        forget_learners_code()
    return int(status), printed.getvalue()


def graded_page(results: Sequence[Result], phase: int, whose: str, console: str) -> str:
    """Render the report. `console` is pytest's output, which is collapsed if there are results."""
    if not results:
        return page(f'<p class="mvt-rule">The tests ended early.</p><pre tabindex="0">{escape(console)}</pre>')
    num_passed = sum(result["outcome"] == "passed" for result in results)
    verdict = f"{num_passed} of {len(results)} tests pass"
    parts = [f'<p><strong>{verdict}</strong> <span class="mvt-faint">· phase {phase}, {escape(whose)}</span></p>']
    for task, tests in groupby(results, lambda result: result["task"]):
        parts.append(task_row(phase, task, list(tests)))
    shown = [result for result in results if "alike" in result]
    failures = [failure(result, phase, is_open=number == 0) for number, result in enumerate(shown)]
    parts += failures[:1]
    if failures[1:]:
        more = "1 more failure" if len(failures) == 2 else f"{len(failures) - 1} more failures"
        parts.append(f"<details><summary>{more}</summary>{''.join(failures[1:])}</details>")
    parts += unusual(results, phase)
    folded = f'<details><summary>Console output</summary><pre tabindex="0">{escape(console)}</pre></details>'
    return page("".join([*parts, folded]))


def page(body: str) -> str:
    return f'<style>{stylesheet()}</style><div class="mvt" role="region" aria-label="graded tests">{body}</div>'


@cache
def stylesheet() -> str:
    return Path(__file__).with_name("graded.css").read_text(encoding="utf-8")


def task_row(phase: int, task: int, tests: Sequence[Result]) -> str:
    about = " and ".join(dict.fromkeys(str(test["about"]).replace("_", " ") for test in tests))
    name = f'<span class="mvt-name"><strong>{phase}.{task}</strong> {escape(about)}</span>'
    return f'<div class="mvt-task">{name}<span class="mvt-dots">{"".join(map(dot, tests))}</span></div>'


def dot(test: Result) -> str:
    outcome = str(test["outcome"])
    about = escape(f"{outcome}: {test['rule']}")
    kind, sign = KINDS.get(outcome, "other"), SIGNS.get(outcome, "-")
    return f'<span class="mvt-dot {kind}" role="img" title="{about}" aria-label="{about}">{sign}</span>'


def failure(test: Result, phase: int, *, is_open: bool) -> str:
    """Render a failure: the rule, the expected values next to yours, and the hint. Only the first failure is
    expanded."""
    parts = test["parts"]
    rule = str(parts["rule"] if parts else test["rule"])
    body = comparison(parts) if parts else f'<pre tabindex="0">{escape(test["text"])}</pre>'
    alike = f'<p class="mvt-faint">{escape(test["alike"])}</p>' if test["alike"] else ""
    line = test["line"] or line_of(phase, str(test["about"]))
    task = f"{phase}.{test['task']}"
    summary = f'<summary><span class="mvt-rule">{task} {escape(rule)}</span></summary>'
    opened = " open" if is_open else ""
    return f'<details class="mvt-failure"{opened}>{summary}{body}{alike}<p>{link(phase, line)}</p></details>'


def comparison(parts: Mapping[str, Any]) -> str:
    """Render a failure: situation, plan as bars (if any), values, calls and hint."""
    shown = []
    if parts["situation"]:
        shown.append(f"<pre>{escape(chr(10).join(parts['situation']))}</pre>")
    if parts["shares"]:
        shown.append(step_bars(**parts["shares"]))
    shown.append(table([row for row in parts["rows"] if row[1] != row[2]]))
    alike = [name for name, expected, yours in parts["rows"] if expected == yours]
    if alike:
        shown.append(f'<p class="mvt-faint">As expected: {escape(", ".join(alike))}.</p>')
    if parts["calls"]:
        calls = escape("\n".join(parts["calls"]))
        shown.append(f"<details><summary>Your calls, in order</summary><pre>{calls}</pre></details>")
    return "".join([*shown, f"<p><strong>Hint:</strong> {escape(parts['hint'])}</p>"])


def table(rows: Sequence[tuple[str, str, str]]) -> str:
    """Render the differences, with expected values next to the learner's."""
    cells = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(expected)}</td><td>{escape(yours)}</td></tr>"
        for name, expected, yours in rows
    )
    return f"<table><thead><tr><th></th><th>expected</th><th>yours</th></tr></thead><tbody>{cells}</tbody></table>"


def unusual(results: Sequence[Result], phase: int) -> list[str]:
    """Return advice for a file that cannot be imported, or for the first unwritten task."""
    for test in results:
        if test["outcome"] == "not loaded":
            text = f"<pre>{escape(test['text'])}</pre>"
            return [f'<div class="mvt-failure"><p class="mvt-rule">Your file cannot be imported</p>{text}</div>']
    for test in results:
        if test["outcome"] == "not written":
            task = escape(str(test["text"]).removeprefix("NotImplementedError: "))
            return [f"<p><strong>Next:</strong> {task}. {link(phase, test['line'])}</p>"]
    return []


def link(phase: int, line: int | None) -> str:
    """Return a link that opens the learner's file in JupyterLab at the line."""
    path = starter_path(phase)
    shown = f"labs/{path.parent.name}/starter.py"
    # RFC 5147 counts the gaps between lines, and 0 is the gap before the first line
    place = f"#line={line - 1}" if line else ""
    where = f", line {line}" if line else ""
    # Relative to the notebook, because that is where JupyterLab resolves a cell's links. In a browser, the notebook is
    # on a different drive.
    relative = os.path.relpath(path, CHECKOUT / "notebooks" if IN_BROWSER else None)
    return f'<a href="{escape(Path(relative).as_posix())}{place}">Open {shown}{where}</a>'


def line_of(phase: int, about: str) -> int | None:
    """Return the line number of the function or class that a test file is named after, or None."""
    try:
        tree = ast.parse(starter_path(phase).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    found = {in_words(node.name): node.lineno for node in ast.walk(tree) if isinstance(node, DEFINITIONS)}
    return found.get(about) or next((line for name, line in found.items() if name.endswith(f"_{about}")), None)


def in_words(name: str) -> str:
    """Convert a class name to a function name: `BlockPool` becomes `block_pool`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


MIN_PERCENT = 3.0


def step_bars(expected: Mapping[str, int], yours: Mapping[str, int], budget: int) -> str:
    """Render the expected plan above the learner's, to the same scale, with frames around the differing shares."""
    names = list(dict.fromkeys([*expected, *yours]))
    totals = [sum(max(0, amount) for amount in plan.values()) for plan in (expected, yours)]
    # If most of the budget were unused, every share would be too narrow to see.
    scale = max([min(budget, 2 * max(totals)), *totals, 1])
    return "".join(bar(side, plan, other, names, scale) for side, plan, other in (
        ("expected", expected, expected), ("yours", yours, expected),
    ))  # fmt: skip


def bar(side: str, plan: Mapping[str, int], expected: Mapping[str, int], names: list[str], scale: int) -> str:
    """Render one plan as a row of shares in order."""
    shares = []
    for name, amount in plan.items():
        number = names.index(name)
        wrong = "" if expected.get(name) == amount else " mvt-wrong"
        width = max(MIN_PERCENT, 100 * max(0, amount) / scale)
        style = f"width:{width:.1f}%;background:{color(number)};color:{ink_on(number)}"
        shares.append(f'<span class="mvt-share{wrong}" style="{style}">{escape(f"{name} {amount}")}</span>')
    total = sum(plan.values())
    words = escape(f"{side}: " + (", ".join(f"{name} {amount}" for name, amount in plan.items()) or "nothing"))
    strip = f'<span class="mvt-step" role="img" aria-label="{words}">{"".join(shares)}</span>'
    return f'<div class="mvt-bar"><span class="mvt-side">{side}</span>{strip}<span>{total} tokens</span></div>'
