"""Provides fixtures for the code under test, phase by phase, and prints a line that says whose code it is."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from mini_vllm.assembly.lineup import Lineup, lineup_from_env
from mini_vllm_labs.grading.labtest.hooks import (  # noqa: F401 (pytest finds its hooks here by their names)
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_itemcollected,
    pytest_pyfunc_call,
    pytest_report_teststatus,
    pytest_runtest_makereport,
    pytest_runtest_setup,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_timeout_cancel_timer,
    pytest_timeout_set_timer,
)
from mini_vllm_labs.grading.labtest.own_answers import watched_key
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays.earlier_answers import earlier_answers
from mini_vllm_labs.grading.starter_file import complaint_about_file, complaint_about_import
from mini_vllm_labs.grading.whose_code import say_whose_code
from mini_vllm_labs.runs.sandbox.errors import OutOfTime, StarterNotLoadedError
from mini_vllm_labs.runs.starter_status import lab_folder, starter_path


def pytest_sessionstart(session: pytest.Session) -> None:
    say_whose_code(session.config, Path(__file__).parents[1])


def phase_module(phase: int, lineup: Lineup) -> ModuleType:
    """Import the code that the lineup names for a phase; skip the test if the phase is absent.

    A bare `starter` or `solution` also includes the electives here, because their tests need no engine.
    """
    impl = str(lineup)
    if impl not in ("starter", "solution"):
        impl = lineup[phase]
    match impl:
        case "starter":
            return import_starter(phase)
        case "solution":
            return import_module(f"solutions.{lab_folder(phase)}")
    pytest.skip(f"phase {phase} is not in the lineup {lineup}")


def import_starter(phase: int) -> ModuleType:
    """Import the learner's file. If that fails, raises `StarterNotLoadedError` with a message for the learner."""
    if complaint := complaint_about_file(starter_path(phase)):
        raise StarterNotLoadedError(complaint)
    try:
        return import_module(f"labs.{lab_folder(phase)}.starter")
    except (Exception, SystemExit, OutOfTime) as error:
        raise StarterNotLoadedError(complaint_about_import(error, starter_path(phase))) from None


@pytest.fixture
def answers(request: pytest.FixtureRequest) -> Answers:
    """The reference's results for a test's cases."""
    return Answers(request.node.nodeid.split("/", 2)[2])


@pytest.fixture(scope="session")
def lineup() -> Lineup:
    """The lineup that `LAB_IMPL` names."""
    return lineup_from_env()


def fixture_of(phase: int) -> Callable[[pytest.Config, Lineup], Iterator[ModuleType]]:
    """Return a fixture that provides a phase's code and records what the code returns."""

    @pytest.fixture(scope="session", name=f"phase{phase}")
    def module(pytestconfig: pytest.Config, lineup: Lineup) -> Iterator[ModuleType]:
        with earlier_answers(phase_module(phase, lineup)) as earlier:
            pytestconfig.stash.setdefault(watched_key, {})[earlier.phase.__name__] = earlier
            yield earlier.phase

    return module


phase1, phase2, phase3, phase4, phase5, phase6 = map(fixture_of, range(1, 7))
phase7, phase8, phase9, phase10, phase11, phase12, phase13, phase14 = map(fixture_of, range(7, 15))
