"""Runs a learner's test file on one implementation of a phase, with pytest, in this process."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mini_vllm_labs.runs.starter_status import lab_folder

MAX_CHARACTERS = 300
OPTIONS = ("-x", "-q", "--noconftest", "--tb=short", "-p", "no:cacheprovider")


class Witness:
    """A pytest plugin that counts the outcomes, and stores the first failure."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {"tests": 0, "passed": 0, "failed": "", "why": "", "prints": False}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.seen["tests"] = len(session.items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._fail("the file", report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seen["prints"] |= bool(report.capstdout or report.capstderr)
        self.seen["passed"] += report.when == "call" and report.passed
        if report.failed:
            self._fail(report.nodeid.partition("::")[2], report)

    def _fail(self, where: str, report: pytest.TestReport | pytest.CollectReport) -> None:
        crash = getattr(report.longrepr, "reprcrash", None)
        lines = str(crash.message if crash else report.longrepr).strip().splitlines() or [""]
        self.seen["failed"] = self.seen["failed"] or where
        self.seen["why"] = self.seen["why"] or (lines[0] if crash else lines[-1])[:MAX_CHARACTERS]


def install(phase: int, reference: str) -> None:
    """Make the reference the module from which alternative solutions import parts; this also imports the phase's
    dependencies."""
    package = sys.modules["solutions"] = ModuleType("solutions")
    name = lab_folder(phase)
    module = sys.modules[f"solutions.{name}"] = ModuleType(f"solutions.{name}")
    setattr(package, name, module)
    exec(reference, vars(module))


def run(phase: int, text: str, file: Path) -> dict[str, Any]:
    """Return the outcome of a test file, run on an implementation that it imports as the phase's starter."""
    name = f"labs.{lab_folder(phase)}.starter"
    module = sys.modules[name] = ModuleType(name)
    vars(importlib.import_module(f"labs.{lab_folder(phase)}"))["starter"] = module
    exec(text, vars(module))

    @pytest.fixture(scope="session", name=f"phase{phase}")
    def implementation() -> ModuleType:
        return module

    fixtures, witness = ModuleType("fixture_of_the_phase"), Witness()
    vars(fixtures)["implementation"] = implementation
    folder = file.parent
    where = ["-c", str(folder / "pytest.ini"), "--rootdir", str(folder), str(file)]
    witness.seen["code"] = int(pytest.main([*OPTIONS, *where], plugins=[witness, fixtures]))
    return witness.seen
