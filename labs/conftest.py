"""Whose code the graded tests grade, said at the top and at the end of every run."""

from importlib import import_module
from types import ModuleType

import pytest

from mini_vllm.lineup import PHASE_NAMES, Lineup, lineup_from_env

FOLDERS = tuple(f"phase{number}_{name.lower().replace(' ', '_')}" for number, name in enumerate(PHASE_NAMES, 1))


def phase_module(phase: int, lineup: Lineup) -> ModuleType:
    """Import the code of one phase, as the lineup says; an absent phase skips the test and says so."""
    match lineup[phase]:
        case "starter":
            return import_module(f"labs.{FOLDERS[phase - 1]}.starter")
        case "solution":
            return import_module(f"solutions.{FOLDERS[phase - 1]}")
    pytest.skip(f"phase {phase} is not in the lineup {lineup}")


@pytest.fixture(scope="session")
def lineup() -> Lineup:
    """The lineup that `LAB_IMPL` names."""
    return lineup_from_env()


@pytest.fixture(scope="session")
def phase1(lineup: Lineup) -> ModuleType:
    return phase_module(1, lineup)


@pytest.fixture(scope="session")
def phase2(lineup: Lineup) -> ModuleType:
    return phase_module(2, lineup)


@pytest.fixture(scope="session")
def phase3(lineup: Lineup) -> ModuleType:
    return phase_module(3, lineup)


@pytest.fixture(scope="session")
def phase4(lineup: Lineup) -> ModuleType:
    return phase_module(4, lineup)


@pytest.fixture(scope="session")
def phase5(lineup: Lineup) -> ModuleType:
    return phase_module(5, lineup)


@pytest.fixture(scope="session")
def phase6(lineup: Lineup) -> ModuleType:
    return phase_module(6, lineup)


def whose_code() -> str:
    """Return the sentence that every report carries."""
    lineup = lineup_from_env()
    text = f"LAB_IMPL={lineup}\ngraded code: {lineup.describe()}"
    if "starter" not in str(lineup):
        text += "\nThis grades the REFERENCE, not your work. To grade yours: LAB_IMPL=starter pytest labs"
    return text


def pytest_sessionstart(session: pytest.Session) -> None:
    _say(session.config)


def pytest_terminal_summary(config: pytest.Config) -> None:
    _say(config)


def _say(config: pytest.Config) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.ensure_newline()
        reporter.section("whose code", sep="-", yellow=True, bold=True)
        for line in whose_code().splitlines():
            reporter.write_line(line, yellow=True)
