"""A pytest plugin that logs each event at once, so that a killed run leaves a log too."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

MARK = "_subject_under_test"


class Witness:
    """Writes one JSON line per event: the code that was loaded, each test as it starts, passes or fails."""

    def __init__(self, path: Path, module_name: str) -> None:
        self._path = path
        self._module_name = module_name
        self._loaded = False

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write("start", nodeid.partition("::")[2])

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_setup(self) -> None:
        """After the fixtures have imported the code of the phase: note which file it was, and its mark."""
        module = sys.modules.get(self._module_name)
        if module is not None and not self._loaded:
            self._loaded = True
            self._write("loaded", {"file": module.__file__, "mark": getattr(module, MARK, None)})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            answer = [report.nodeid.split("/", 2)[2], getattr(report, "answer", "")]
            self._write("failed", [report.nodeid.partition("::")[2], str(report.longrepr)[-1500:], answer])
        elif report.when == "call" and report.passed:
            self._write("passed", None)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._write("finished", int(exitstatus))

    def _write(self, event: str, what: Any) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([event, what]) + "\n")
