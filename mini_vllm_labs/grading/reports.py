"""The grade in machine-readable form: a JSON object, a JUnit XML file, and Markdown for GitHub Actions' job summary."""

import re
from collections.abc import Iterator
from html import escape
from typing import Any
from xml.etree import ElementTree

from mini_vllm_labs.grading.results import EngineCheck, Grade, PhaseGrade, TaskGrade, TestResult
from mini_vllm_labs.grading.view import WORDS, next_step, number, point_lines

MAX_CHARACTERS = 4000


def as_markdown(grade: Grade) -> str:
    """Return the Markdown page. Text from a learner's file is preformatted, so it cannot contain markup."""
    what, command = next_step(grade)
    lines = [
        f"## {'; '.join(line.removesuffix(', 10 a task') for line in point_lines(grade))}",
        "",
        "| Phase | Tasks | Points | Alone | Stack |",
        "|---|---|---|---|---|",
        *map(row, grade.phases),
        "",
        f"Next: {escape(what)}",
        "",
        *([f"<pre>{escape(command)}</pre>", ""] if command else []),
    ]
    for phase in grade.phases:
        for title, message in failures(phase):
            lines += [f"<details><summary>{escape(title)}</summary>", "", preformatted(message), "", "</details>", ""]
    return "\n".join(lines)


def row(phase: PhaseGrade) -> str:
    tasks = "error" if phase.error else " ".join(number(task.points) for task in phase.tasks)
    points = f"{number(phase.points)}/{phase.plan.points}"
    verdicts = (WORDS.get(status, "-") for status in (phase.alone, phase.stack.status))
    return f"| {phase.plan.number} {phase.plan.name} | {tasks} | {points} | {' | '.join(verdicts)} |"


def failures(phase: PhaseGrade) -> Iterator[tuple[str, str]]:
    """Yield the title and message of each started task's first failure, then of the failed engine checks."""
    if phase.error:
        yield f"Phase {phase.plan.number} could not be graded", phase.error
        return
    for task in phase.tasks:
        test = task.first_failure
        if test is not None and test.outcome != "not started":
            name = test.id.rpartition("::")[2]
            yield f"Phase {phase.plan.number}, task {task.plan.number}: {name}", test.message
    for name, check in (("beside the reference", phase.oracle), ("in the stack", phase.stack)):
        if check.status == "failed":
            yield f"Phase {phase.plan.number} {name}", check.message


def preformatted(text: str) -> str:
    """Return `text` preformatted and, if it is long, shortened, because a job summary is limited to 1 MiB."""
    shown = clean(text)
    cut = shown if len(shown) <= MAX_CHARACTERS else f"{shown[:MAX_CHARACTERS]}\n..."
    return f"<pre>{escape(cut)}</pre>"


SCHEMA = 1
NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_json(grade: Grade) -> dict[str, Any]:
    what, command = next_step(grade)
    points = {"total": round(grade.elective_points, 2), "max": grade.max_elective_points}
    electives = {"electives": points} if grade.electives else {}
    return {
        "schema": SCHEMA,
        "lineup": "starter",
        "phases": [phase_as_json(phase) for phase in grade.phases],
        "total": round(grade.points, 2),
        "max": grade.max_points,
        **electives,
        "next": {"what": what, "command": command},
        "seconds": round(grade.seconds, 2),
    }


def phase_as_json(phase: PhaseGrade) -> dict[str, Any]:
    return {
        "phase": phase.plan.number,
        "name": phase.plan.name,
        "file": phase.plan.starter,
        "sha256": phase.sha256,
        "error": phase.error or None,
        "missing": phase.missing,
        "alone": {"status": phase.alone, "oracle": check_as_json(phase.oracle)},
        "stack": check_as_json(phase.stack),
        "points": round(phase.points, 2),
        "max": phase.plan.points,
        "tasks": [task_as_json(phase, task) for task in phase.tasks],
    }


def task_as_json(phase: PhaseGrade, task: TaskGrade) -> dict[str, Any]:
    return {
        "task": f"{phase.plan.number}.{task.plan.number}",
        "status": "error" if phase.error else task.status,
        "points": 0.0 if phase.error else round(task.points, 2),
        "max": task.plan.points,
        "tests": [
            {"id": f"{phase.plan.folder}/{test.id}", "outcome": test.outcome, "message": test.message}
            for test in task.tests
        ],
    }


def check_as_json(check: EngineCheck) -> dict[str, Any]:
    return {"status": check.status, "message": check.message, "culprits": check.culprits, "steps": check.steps}


def as_junit(grade: Grade) -> str:
    """Return the grade as JUnit XML: one suite per phase, with cases for tests, oracle and stack.

    pytest's `--junitxml` cannot write this file, because a phase may need several workers. A test that ends its worker,
    runs out of time or is never reached has a result in the grade but not in any pytest run.
    """
    root = ElementTree.Element("testsuites", name="mini-vllm grade")
    for phase in grade.phases:
        suite = ElementTree.SubElement(root, "testsuite", name=f"phase {phase.plan.number}: {phase.plan.name}")
        for task in phase.tasks:
            for test in task.tests:
                add_test(suite, phase, task, test)
        for name, check in (("oracle", phase.oracle), ("stack", phase.stack)):
            add_check(suite, phase, name, check)
        for kind, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(kind, str(sum(1 for _ in suite.iter(tag))))
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def add_test(suite: ElementTree.Element, phase: PhaseGrade, task: TaskGrade, test: TestResult) -> None:
    """Add the case of one graded test; if the file could not be graded, every case is an error."""
    name = f"{phase.plan.number}.{task.plan.number}"
    case = ElementTree.SubElement(
        suite, "testcase", classname=f"task {name}", name=clean(test.id), time=f"{test.seconds:.3f}"
    )
    if phase.error:
        add_outcome(case, "error", phase.error)
    elif test.outcome in ("crashed", "not run"):
        add_outcome(case, "error", test.message)
    elif test.outcome != "passed":
        add_outcome(case, "failure", test.message)


def add_check(suite: ElementTree.Element, phase: PhaseGrade, name: str, check: EngineCheck) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=f"phase {phase.plan.number}", name=name)
    if check.status == "failed":
        add_outcome(case, "failure", check.message)
    elif check.status != "passed":
        add_outcome(case, "skipped", check.message or check.status)


def add_outcome(case: ElementTree.Element, tag: str, message: str) -> None:
    text = clean(message)
    ElementTree.SubElement(case, tag, message=text.partition("\n")[0]).text = text


def clean(text: str) -> str:
    """Return the text without characters that XML does not allow."""
    return NOT_IN_XML.sub("?", text)
