"""The code under test: each phase as the lineup says. `conftest.py` of the project reports whose it is."""

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
