"""A pytest plugin that writes the results of graded tests as JSON for the report in a notebook.

`pytest -p mini_vllm_labs.grading.labtest.report_file --lab-report FILE`
"""

import json
import re
from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from mini_vllm_labs.grading.hints import with_hint
from mini_vllm_labs.grading.labtest.failure import parts_of
from mini_vllm_labs.grading.labtest.grouping import failed_in
from mini_vllm_labs.grading.labtest.reports import line_in, phase_of, rule_of

TASK = re.compile(r"test_task(\d+)_(\d+)_(\w+)\.py")
results_key = pytest.StashKey[dict[str, dict[str, Any]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lab-report", metavar="FILE", help="write the results of graded tests to FILE as JSON")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[results_key] = {}


@pytest.hookimpl(wrapper=True, tryfirst=True)  # the outermost hook, so that it sees the reworded report
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    task = TASK.match(item.path.name)
    if task is not None and (call.when == "call" or call.excinfo is not None):
        error = call.excinfo.value if call.excinfo else None
        parts = parts_of(error) if error else None
        item.config.stash[results_key][item.nodeid] = {
            "id": item.nodeid,
            "phase": phase_of(item.nodeid),
            "task": int(task[2]),
            "about": task[3],
            "rule": rule_of(item),
            "outcome": outcome_of(report),
            "text": report.longreprtext.strip() if report.failed else "",
            "line": line_in(error) if error else None,
            "parts": asdict(parts) if parts else None,
        }
    return report


def outcome_of(report: pytest.TestReport) -> str:
    """Return a test's outcome as named in the terminal's summary."""
    for kind in ("not_written", "not_loaded"):
        if hasattr(report, kind):
            return kind.replace("_", " ")
    return str(report.outcome)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Write the file with all tests; each shown failure also lists similar failures."""
    path, results = config.getoption("--lab-report"), config.stash.get(results_key, {})
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if not path or reporter is None:
        return
    for report in reporter.stats.get("failed", []):
        if report.nodeid in results:
            results[report.nodeid]["alike"] = next((text for name, text in report.sections if name == "alike"), "")
    for report in failed_in(reporter):
        if report.nodeid in results and (hint := getattr(report, "hint", "")):
            result = results[report.nodeid]
            result["text"] = with_hint(result["text"], hint)
            if result["parts"]:
                result["parts"]["hint"] = hint
    Path(path).write_text(json.dumps(list(results.values())), encoding="utf-8")
