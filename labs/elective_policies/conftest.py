"""Whose policies are graded: the starter's if `LAB_IMPL` names any starter, else the reference."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from mini_vllm.assembly.lineup import lineup_from_env

HERE = Path(__file__).parent
NUM_METHODS = 11


def grades_the_starter() -> bool:
    return "starter" in str(lineup_from_env())


@pytest.fixture(scope="session")
def policies() -> ModuleType:
    """The graded module."""
    return import_module("labs.elective_policies.starter" if grades_the_starter() else "solutions.elective_policies")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave an untouched starter out of `pytest labs`, as other electives are."""
    is_named = any(HERE.name in argument for argument in config.invocation_params.args)
    is_untouched = (HERE / "starter.py").read_text(encoding="utf-8").count("raise NotImplementedError") == NUM_METHODS
    if grades_the_starter() and is_untouched and not is_named:
        config.hook.pytest_deselected(items=[item for item in items if item.path.is_relative_to(HERE)])
        items[:] = [item for item in items if not item.path.is_relative_to(HERE)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    whose = "yours, labs/elective_policies/starter.py" if grades_the_starter() else "the REFERENCE, not your work"
    terminalreporter.write_line(f"elective policies: graded is {whose}", yellow=True)
