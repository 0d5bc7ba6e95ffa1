"""Whose code the graded tests grade, said at the top and at the end of every run."""

from pathlib import Path

import pytest

from mini_vllm.seams.lineup import CHECKOUT, lineup_from_env


def whose_code() -> list[str]:
    """Return the lines that every report carries.

    Raises `pytest.UsageError` if `LAB_IMPL` is no lineup, or if the engine comes from another checkout.
    """
    here = Path(__file__).parent
    if here.resolve() != CHECKOUT.resolve():
        raise pytest.UsageError(f"the tests are in {here}, but mini_vllm is imported from {CHECKOUT}: run them there")
    try:
        lineup = lineup_from_env()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    lines = [f"labs/ graded with LAB_IMPL={lineup}", lineup.describe()]
    if "starter" not in str(lineup):
        lines.append("This grades the REFERENCE, not your work. To grade yours: LAB_IMPL=starter pytest labs")
    return lines


def pytest_sessionstart(session: pytest.Session) -> None:
    _say(session.config)


def pytest_terminal_summary(config: pytest.Config) -> None:
    _say(config)


def _say(config: pytest.Config) -> None:
    lines = whose_code()
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    reporter.ensure_newline()
    reporter.section("whose code", sep="-", yellow=True, bold=True)
    for line in lines:
        reporter.write_line(line, yellow=True)
