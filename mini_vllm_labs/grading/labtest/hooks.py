"""Defines pytest hooks for the graded tests: markers, limits, and reports of failures for the learner.

`labs/conftest.py` imports them, so that they work wherever pytest is started.
"""

import contextlib
import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from mini_vllm.assembly.lineup import CHECKOUT, PHASE_NAMES, lineup_from_env
from mini_vllm.environment import GRADE_SECONDS
from mini_vllm_labs.grading.hints import answer_of
from mini_vllm_labs.grading.labtest.answers import unusable_answer
from mini_vllm_labs.grading.labtest.failure import Failed
from mini_vllm_labs.grading.labtest.grouping import arrange, is_random
from mini_vllm_labs.grading.labtest.kept_state import retold_as_kept
from mini_vllm_labs.grading.labtest.own_answers import all_kept
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.labtest.reports import phase_of, retell, tell_what_is_missing, tell_what_is_next
from mini_vllm_labs.runs.sandbox.errors import OutOfTime
from mini_vllm_labs.runs.sandbox.late_tests import NOT_RUN, LateTests
from mini_vllm_labs.runs.sandbox.time_limit import TimeLimit, Watched, end_process
from mini_vllm_labs.runs.starter_status import LABS, is_begun, lab_folder

TASK_FILE = re.compile(r"test_task(\d+)_(\d+)_\w+\.py")
FOLDER = str(CHECKOUT / "labs")
EXTRA_BYTES = 2**30  # in addition to the memory that pytest and torch already hold
VM_STATUS = Path("/proc/self/status")
time_limit_key = pytest.StashKey[TimeLimit]()
late_key = pytest.StashKey[LateTests]()


def pytest_configure(config: pytest.Config) -> None:
    """Register a marker for each task, `task2_1` for `labs/phase2_*/test_task2_1_*.py`."""
    for path in sorted((CHECKOUT / "labs").glob("*/test_task*.py")):
        if task := TASK_FILE.match(path.name):
            config.addinivalue_line(
                "markers", f"task{task[1]}_{task[2]}: graded test of phase {task[1]}, task {task[2]}"
            )


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Give each graded test the marker of its file."""
    if task := TASK_FILE.match(item.path.name):
        item.add_marker(f"task{task[1]}_{task[2]}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each graded test its time limit, unless the learner has set one (`--timeout 60`, or 0 for none)."""
    leave_out_untouched_electives(config, items)
    asked = config.getoption("timeout", None) is not None or "PYTEST_TIMEOUT" in os.environ
    if asked or not config.pluginmanager.hasplugin("timeout"):
        return
    for item in items:
        if phase_of(item.nodeid):
            item.add_marker(pytest.mark.timeout(GRADE_SECONDS.get()))


def leave_out_untouched_electives(config: pytest.Config, items: list[pytest.Item]) -> None:
    """If `LAB_IMPL=starter`, deselect electives that the learner has not started, unless they are named on the command
    line."""
    words = " ".join(config.invocation_params.args)
    quiet = {
        phase
        for phase in LABS[len(PHASE_NAMES) :]
        if not re.search(f"phase{phase}|task{phase}|{lab_folder(phase)}", words) and not is_begun(phase)
    }
    left_out = [item for item in items if phase_of(item.nodeid) in quiet]
    if left_out and str(lineup_from_env()) == "starter":
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip the rest of a task if its tests never finish."""
    if phase_of(item.nodeid) and not late_tests(item).seconds(item.nodeid, GRADE_SECONDS.get()):
        pytest.skip(NOT_RUN)


def late_tests(item: pytest.Item) -> LateTests:
    return item.config.stash.setdefault(late_key, LateTests())


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """Replace the timer of pytest-timeout, which would print the stacks of all threads."""
    if not phase_of(item.nodeid):
        return None
    from pytest_timeout import is_debugging

    seconds = late_tests(item).seconds(item.nodeid, settings.timeout)

    def watched(frame: FrameType | None) -> Watched:
        is_off = not settings.disable_debugger_detection and is_debugging()
        return (item, seconds) if runs_a_test(frame) and not is_off else None

    def give_up(text: str) -> None:
        if (capture := item.config.pluginmanager.getplugin("capturemanager")) is not None:
            capture.suspend_global_capture(in_=True)  # otherwise, the text would be captured and lost
        end_process(f"{item.name}: {text}\nThe tests end here.")

    limit = TimeLimit(watched, give_up, by_signal=settings.method == "signal")
    item.stash[time_limit_key] = limit
    limit.start()
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> bool | None:
    """Cancel a test's time limit if it has one."""
    limit = item.stash.get(time_limit_key, None)
    if limit is None:
        return None
    limit.stop()
    return True


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Run a graded test within its memory limit; explain errors using the last value that the learner's code returned.

    If an answer does not belong to its caller alone, or the file has kept something from earlier tests, that is
    reported instead of the consequences.
    """
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    try:
        with limited_memory(phase_of(pyfuncitem.nodeid)), all_kept(pyfuncitem):
            try:
                return (yield)
            except (Exception, Failed) as error:
                raise retold_as_kept(error, pyfuncitem.obj, arguments) from error.__cause__
    except Exception as error:
        if isinstance(answers := arguments.get("answers"), Answers):
            answers.restart()  # the second run starts over with the first case
        explanation = unusable_answer(error, lambda: pyfuncitem.obj(**arguments))
        if explanation is None:
            raise
        raise explanation from error


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.excinfo is not None and report.failed and phase_of(item.nodeid):
        marked: Any = report
        marked.is_random, marked.answer = is_random(item), answer_of(call.excinfo.value)
        if isinstance(call.excinfo.value, OutOfTime | MemoryError):
            late_tests(item).add(item.nodeid)
        retell(report, item, call.excinfo.value)
    return report


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    """Count unwritten tasks, files that cannot be imported, and tests that were not run, separately from failures."""
    if hasattr(report, "not_written"):
        return "not written", "-", ("NOT WRITTEN", {"yellow": True})
    if hasattr(report, "not_loaded"):
        return "not loaded", "E", ("NOT LOADED", {"red": True})
    if report.skipped and NOT_RUN in str(report.longrepr):
        return "not run after two that did not end", "n", ("NOT RUN", {"yellow": True})
    return None


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        arrange(reporter)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    tell_what_is_missing(terminalreporter)
    if "starter" in str(lineup_from_env()):
        tell_what_is_next(terminalreporter)


def runs_a_test(frame: FrameType | None) -> bool:
    """Return whether a graded test is on the stack of `frame`."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(FOLDER) and file != str(Path(FOLDER, "conftest.py")):  # conftest contains fixtures and hooks
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def limited_memory(phase: int) -> Iterator[None]:
    """Limit a test to 1 GiB more than the memory already in use, if `/proc` shows that amount.

    Phases 6 and 7 have no limit, because they use torch.
    """
    used = None if phase in (6, 7) else bytes_in_use()
    if used is None:
        yield
        return
    import resource

    # Not RLIMIT_AS, because threads and torch reserve far more address space than they use.
    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = used + EXTRA_BYTES
    if before[0] == resource.RLIM_INFINITY or most < before[0]:
        resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def bytes_in_use() -> int | None:
    """Return the size of the process's data segment, or None if `/proc` does not show it."""
    try:
        lines = VM_STATUS.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmData:")), None)
