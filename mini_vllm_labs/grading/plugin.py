"""A pytest plugin for the worker: imports the learner's file, runs the tests, and sends each result.

Where the system can fork, each test runs in a separate process with a fresh module, so that its side effects end with
it. Elsewhere, the module is reloaded before each test. With `spare`, a waiting learner gets the result sooner. Passing
tests then share a process, with the module reloaded before each, and a failing test runs again alone.
"""

import gc
import importlib
import mmap
import os
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest
from _pytest.runner import runtestprotocol

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.grading.children import fork_patiently, wait
from mini_vllm_labs.grading.hints import answer_of
from mini_vllm_labs.grading.results import Outcome, TestResult
from mini_vllm_labs.grading.starter_file import complaint_about_import, import_starter, missing_names, sha256
from mini_vllm_labs.grading.worker import LIMITS, End, Importing, Loaded, NotGradable, Outdated, TestStarted, send_event
from mini_vllm_labs.runs.sandbox.channel import Channel, take_stdio
from mini_vllm_labs.runs.sandbox.explain import explain, explain_death, is_not_written
from mini_vllm_labs.runs.sandbox.imports import refused_import
from mini_vllm_labs.runs.sandbox.late_tests import NOT_RUN, LateTests
from mini_vllm_labs.runs.sandbox.limits import limit_resources
from mini_vllm_labs.runs.sandbox.watch import Watchdog

SENT, FAILED = 73, 74  # values that are neither a signal nor an exit code of Python or pytest
MAX_SHARED = 3  # once this many processes have ended because of a failed test, each test runs alone
NO_PROCESS = "Not run: this system starts no more processes. Are old ones still running? The limit is `ulimit -u`."
Failure = tuple[Outcome, str]
failure_key = pytest.StashKey[Failure]()
module_key = pytest.StashKey[str | None]()
answer_key = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("timeout", "Read by pytest-timeout, which is not loaded here.")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "timeout: read by pytest-timeout, which is not loaded here")
    config.pluginmanager.register(GradingPlugin(take_stdio()))


class GradingPlugin:
    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.started = time.time()
        limit_resources(LIMITS)

    def take_order(self) -> None:
        """Import everything except the learner's file, then wait for the order."""
        order: dict[str, Any] = self.channel.receive()
        self.is_outdated = order["has_waited"] and has_changed(self.started)
        self.tests = {f"{order['folder']}/{test}": test for test in order["tests"]}
        self.starter = Path(order["starter"])
        self.module_name: str = order["module"]
        self.names: dict[str, str] = order["names"]
        self.seconds: float = order["seconds"]
        self.import_seconds: float = order["import_seconds"]
        self.forks = bool(order["forks"])
        self.late = LateTests(order["late"])
        self.shares_process = self.forks and bool(order["shares_process"])
        self.fixture = f"phase{order['phase']}"
        self.trace = Path(order["trace"])
        self.watch = Watchdog(self.trace)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.take_order()
        items[:] = [item for item in items if item.nodeid in self.tests]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if self.is_outdated:
            send_event(self.channel, Outdated())
        elif session.testsfailed:
            send_event(self.channel, NotGradable("the graded tests cannot be collected"))
        elif (module := self.load()) is not None:
            gc.freeze()  # so that a forked process has less memory to copy
            num_run = self.run_together(session.items, module) if self.shares_process else 0
            left = session.items[num_run:]
            for number, item in enumerate(left):
                self.run(item, left[number + 1] if number + 1 < len(left) else None, module)
        send_event(self.channel, End())
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.excinfo is not None and failure_key not in item.stash:
            # keep the first failure, because it may also cause the teardown to fail
            item.stash[failure_key] = self.failure(call.excinfo.value)
            item.stash[answer_key] = answer_of(call.excinfo.value)
        if call.when == "call":
            item.stash[module_key] = getattr(item.funcargs.get(self.fixture), "__file__", None)  # type: ignore[attr-defined]
        return report

    def load(self) -> ModuleType | None:
        """Import the learner's file and send its path; return None if it cannot be imported."""
        send_event(self.channel, Importing())
        self.watch.clear()
        self.watch.start(self.import_seconds)
        try:
            # fills the cache: each forked test's fixture makes the same call again
            refused_import(self.starter.read_bytes())
            module = import_starter(self.module_name)
        except BaseException as error:
            send_event(self.channel, NotGradable(complaint_about_import(error, self.starter)))
            return None
        finally:
            self.watch.stop()
        file = Path(module.__file__ or "")
        missing = missing_names(module, list(self.names))
        send_event(self.channel, Loaded(str(file), sha256(file) if file.is_file() else "", missing))
        return module

    def run(self, item: pytest.Item, next_item: pytest.Item | None, module: ModuleType) -> None:
        """Run one test and send its result."""
        if not (seconds := self.late.seconds(item.nodeid, self.seconds)):
            self.send_result(item, "not run", NOT_RUN, time.monotonic())
            return
        send_event(self.channel, TestStarted(self.tests[item.nodeid]))
        if self.forks:
            self.run_alone(item, seconds)
            return
        self.watch.clear()
        self.watch.start(seconds)
        importlib.reload(module)
        self.run_here(item, next_item, time.monotonic())
        self.watch.stop()

    def run_alone(self, item: pytest.Item, seconds: float) -> None:
        """Run one test in a forked process and send its result."""
        start = time.monotonic()
        self.watch.clear()
        child = fork_patiently()
        if child is None:
            self.send_result(item, "not run", NO_PROCESS, start)
            return
        if child == 0:
            self.run_in_child(item, start, seconds)
        status = wait(child, seconds)
        if status != SENT:
            self.send_death(item, status, start, seconds)

    def run_in_child(self, item: pytest.Item, start: float, seconds: float) -> NoReturn:
        """Run one test in the forked process; exit with `SENT` if the result was sent."""
        code = 1
        try:
            self.watch.start(seconds)
            self.run_here(item, None, start)
            code = SENT
        finally:
            os._exit(code)  # skip pytest's shutdown, which is the parent's job

    def run_together(self, items: Sequence[pytest.Item], module: ModuleType) -> int:
        """Run tests in a few forked processes; return how many tests have run. The function stops after `MAX_SHARED`
        failed tests."""
        first = 0
        for _ in range(MAX_SHARED):
            if first == len(items):
                break
            num_passed = memoryview(mmap.mmap(-1, 8)).cast("q")  # shared with the child
            start = time.monotonic()
            self.watch.clear()
            child = fork_patiently()
            if child is None:
                break
            if child == 0:
                self.run_all_in_child(items[first:], module, num_passed)
            status = wait(child, self.seconds, num_passed)
            first += num_passed[0]
            if first == len(items):
                break
            if status == FAILED:
                self.run_alone(items[first], self.seconds)
            elif status != SENT:  # the grader blames a test that exits with `SENT`, because that test has no result
                self.send_death(items[first], status, start, self.seconds)
            first += 1
        return first

    def run_all_in_child(self, items: Sequence[pytest.Item], module: ModuleType, num_passed: memoryview) -> NoReturn:
        """Run tests in the forked process; send and count passes; exit with `FAILED` at the first other result."""
        code = 1
        try:
            for item in items:
                send_event(self.channel, TestStarted(self.tests[item.nodeid]))
                start = time.monotonic()
                self.watch.start(self.seconds)
                importlib.reload(module)
                outcome, message = self.outcome_here(item, None)
                if outcome != "passed":
                    break
                self.send_result(item, outcome, message, start)
                num_passed[0] += 1
            code = SENT if num_passed[0] == len(items) else FAILED
        finally:
            os._exit(code)

    def send_death(self, item: pytest.Item, status: int | None, start: float, seconds: float) -> None:
        """Send the result of a test whose process died."""
        trace = self.trace.read_text(encoding="utf-8", errors="replace")
        outcome, message = explain_death(status, trace, seconds)
        if outcome == "timeout":
            self.late.add(item.nodeid)
        self.send_result(item, outcome, message, start)

    def run_here(self, item: pytest.Item, next_item: pytest.Item | None, start: float) -> None:
        """Run one test in this process and send its result."""
        self.send_result(item, *self.outcome_here(item, next_item), start)

    def outcome_here(self, item: pytest.Item, next_item: pytest.Item | None) -> Failure:
        """Run one test in this process; return its outcome and message."""
        outcome: Outcome = "passed"
        message = ""
        try:
            reports = runtestprotocol(item, log=False, nextitem=next_item)
        except BaseException as error:  # pytest does not catch KeyboardInterrupt and pytest.exit
            outcome, message = self.failure(error)
        else:
            if not all(report.passed for report in reports):
                outcome, message = item.stash.get(failure_key, ("failed", "The test failed without a message."))
        return outcome, message

    def send_result(self, item: pytest.Item, outcome: Outcome, message: str, start: float) -> None:
        seconds = round(time.monotonic() - start, 3)
        test, module = self.tests[item.nodeid], item.stash.get(module_key, None)
        answer = item.stash.get(answer_key, "")
        send_event(self.channel, TestResult(test, outcome, message, seconds, answer, module))

    def failure(self, error: BaseException) -> Failure:
        """Return the outcome and message for an exception that ended a test."""
        if isinstance(error, pytest.skip.Exception):
            return "not run", f"skipped: {error.msg}"
        if isinstance(error, pytest.fail.Exception):
            return "failed", str(error.msg)
        outcome: Outcome = "not started" if is_not_written(error) else "failed"
        return outcome, explain(error, self.names)


def has_changed(moment: float) -> bool:
    """Return whether an imported course file was changed after a given `time.time`."""
    files = (getattr(module, "__file__", None) or "" for module in [*sys.modules.values()])
    ours = (Path(file) for file in files if file.startswith(f"{CHECKOUT}{os.sep}") and "site-packages" not in file)
    return any(not path.is_file() or path.stat().st_mtime > moment for path in ours)
