"""Whose code the graded tests grade, said at the top and at the end of every run."""

from pathlib import Path

import pytest

from mini_vllm.assembly.lineup import ALL_NAMES, CHECKOUT, lineup_from_env, parse_lineup
from mini_vllm_labs.runs.starter_status import describe


def whose_code() -> list[str]:
    """Return the lines that every report carries.

    Raises `pytest.UsageError` if `LAB_IMPL` is not a lineup, or if the engine comes from another checkout.
    """
    here = Path(__file__).parent
    if here.resolve() != CHECKOUT.resolve():
        raise pytest.UsageError(f"the tests are in {here}, but mini_vllm is imported from {CHECKOUT}: run them there")
    try:
        lineup = lineup_from_env()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    # `starter` and `solution` alone leave the electives out of an engine; their tests need none.
    graded = parse_lineup(f"{lineup}:1-{len(ALL_NAMES)}") if str(lineup) in ("starter", "solution") else lineup
    lines = [f"labs/ of {CHECKOUT}, graded with LAB_IMPL={lineup}", describe(graded)]
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
