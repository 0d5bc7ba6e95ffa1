"""The order of failures on the screen: one message for one mistake, and the first one last.

Tests count as "alike" if they fail with the same rule and question, or with the same exception at the same line.
Random cases of a phase are shown once none of its named tests fails.
"""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from course.grading.alike import alike_line, mistake_in
from course.labtest.reports import phase_of

TASK = re.compile(r"test_task(\d_\d+)")


def is_random(item: pytest.Item) -> bool:
    """Return whether a graded test compares random cases: it is given a seed, or named so."""
    callspec = getattr(item, "callspec", None)
    return (callspec is not None and "seed" in callspec.params) or "_agree" in item.name


def arrange(reporter: pytest.TerminalReporter) -> None:
    """Leave one failure of each kind to be printed, the first named one last; count the rest apart."""
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
    reporter.stats["failed"] = [report for report in failures if report not in graded] + shown[::-1]
    _count(reporter, "failed alike", [report for group in groups.values() for report in group[1:]])
    _count(reporter, "random cases not shown yet", later)
    if reporter.config.getoption("reportchars") == "fE":
        reporter.reportchars = "E"  # the list of failures would push the first one off the screen


def _task(report: Any) -> str:
    found = TASK.search(report.nodeid)
    return found[1] if found else report.nodeid


def _count(reporter: pytest.TerminalReporter, category: str, reports: Sequence[Any]) -> None:
    if reports:
        reporter.stats[category] = list(reports)
