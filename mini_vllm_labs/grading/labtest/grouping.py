"""Orders the failures on the screen: one message per mistake, with the first failure printed last.

Tests count as "alike" if they fail with the same rule and question, or with the same exception on the same line.
Random cases of a phase are shown only if none of its named tests fails.
"""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from mini_vllm_labs.grading.hints import HINT, hint_for, with_hint
from mini_vllm_labs.grading.labtest.reports import phase_of, words
from mini_vllm_labs.grading.plan import load_whole_plan
from mini_vllm_labs.grading.results import alike_line, mistake_in

FAILED = ("failed", "failed alike", "random cases not shown yet", "not written")
TASK = re.compile(r"test_task(\d+_\d+)")
LATER = "\nHint, if this still fails after you have fixed the failure printed last: "


def is_random(item: pytest.Item) -> bool:
    """Return whether a graded test compares random cases, by its `seed` parameter or by its name."""
    callspec = getattr(item, "callspec", None)
    return (callspec is not None and ("seed" in callspec.params or callspec.id == "random")) or "_agree" in item.name


def add_hints(reporter: pytest.TerminalReporter) -> None:
    """Add the hint for a known mistake to a task's failures once all its tests have run."""
    ended = {report.nodeid: report for kind in ("passed", *FAILED) for report in reporter.stats.get(kind, [])}
    for phase in load_whole_plan():
        for task in phase.tasks:
            reports = {test: ended[path] for test in task.tests if (path := f"{phase.folder}/{test}") in ended}
            failed = {test: report for test, report in reports.items() if report.failed}
            answers = {test: getattr(report, "answer", "") for test, report in failed.items()}
            is_complete = len(reports) == len(task.tests)
            hint = hint_for(f"{phase.number}.{task.number}", answers) if is_complete else ""
            for report in failed.values() if hint else ():
                report.hint = hint
                retell_as(report, with_hint(str(report.longrepr), hint))


def retell_as(report: Any, text: str) -> None:
    summary = getattr(getattr(report.longrepr, "reprcrash", None), "message", "")
    report.longrepr = words(report.location, summary, text)


def failed_in(reporter: pytest.TerminalReporter) -> list[Any]:
    """Return the reports of all failed tests, including those that are not printed."""
    return [report for kind in FAILED for report in reporter.stats.get(kind, [])]


def arrange(reporter: pytest.TerminalReporter) -> None:
    """Keep one failure of each kind to print, and put the first one last; count the rest separately."""
    add_hints(reporter)
    failures = reporter.stats.get("failed", [])
    graded = [report for report in failures if phase_of(report.nodeid)]
    if not graded:
        return
    named_phases = {phase_of(report.nodeid) for report in graded if not report.is_random}
    later = [report for report in graded if report.is_random and phase_of(report.nodeid) in named_phases]
    groups: dict[str, list[Any]] = {}
    for report in graded:
        if report not in later:
            key = f"random {_task(report)}" if report.is_random else mistake_in(str(report.longrepr))
            groups.setdefault(key, []).append(report)
    for group in groups.values():
        if len(group) > 1:
            group[0].sections.append(("alike", alike_line([report.nodeid for report in group[1:]])))
    shown = [group[0] for group in groups.values()]
    first = {phase_of(report.nodeid): report for report in reversed(shown)}
    for report in shown:
        before, hint = first[phase_of(report.nodeid)], getattr(report, "hint", "")
        # Different tests may fail because of the same mistake, so questions after the first are marked.
        if report is not before and not (hint and hint == getattr(before, "hint", "")):
            retell_as(report, str(report.longrepr).rstrip().replace(HINT, LATER))
    reporter.stats["failed"] = [report for report in failures if report not in graded] + shown[::-1]
    _count(reporter, FAILED[1], [report for group in groups.values() for report in group[1:]])
    _count(reporter, FAILED[2], later)
    if reporter.config.getoption("reportchars") == "fE":
        reporter.reportchars = "E"  # the list of failures would push the first one off the screen


def _task(report: Any) -> str:
    found = TASK.search(report.nodeid)
    return found[1] if found else report.nodeid


def _count(reporter: pytest.TerminalReporter, category: str, reports: Sequence[Any]) -> None:
    if reports:
        reporter.stats[category] = list(reports)
