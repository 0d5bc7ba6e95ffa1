"""Prints whose code is being graded, both at the top and at the end of every test run."""

from pathlib import Path

import pytest

from mini_vllm.assembly.lineup import ALL_NAMES, CHECKOUT, lineup_from_env, parse_lineup
from mini_vllm_labs.runs.starter_status import describe

NAME = "whose code"


def say_whose_code(config: pytest.Config, folder: Path) -> None:
    """Print the lines now and again at the end, without repeating them if several conftest files call this. `folder`
    contains the tests.

    Raises `pytest.UsageError` if `LAB_IMPL` is not a lineup, or if the engine comes from a different folder.
    """
    if not config.pluginmanager.has_plugin(NAME):
        config.pluginmanager.register(WhoseCode(config, whose_code(folder)), NAME)


class WhoseCode:
    """A plugin that prints its lines when it is created, and again at the end."""

    def __init__(self, config: pytest.Config, lines: list[str]) -> None:
        self._lines = lines
        self._say(config)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, config: pytest.Config) -> None:
        self._say(config)

    def _say(self, config: pytest.Config) -> None:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None:
            return
        reporter.ensure_newline()
        reporter.section("whose code", sep="-", yellow=True, bold=True)
        for line in self._lines:
            reporter.write_line(line, yellow=True)


def whose_code(folder: Path) -> list[str]:
    """Return the lines of a report. Raises `pytest.UsageError` like `say_whose_code`."""
    if folder.resolve() != CHECKOUT.resolve():
        raise pytest.UsageError(f"the tests are in {folder}, but mini_vllm is imported from {CHECKOUT}: run them there")
    try:
        lineup = lineup_from_env()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    # `starter` and `solution` by themselves build an engine without electives, because the electives' tests do not need
    # one.
    graded = parse_lineup(f"{lineup}:1-{len(ALL_NAMES)}") if str(lineup) in ("starter", "solution") else lineup
    lines = [f"labs/ of {CHECKOUT}, graded with LAB_IMPL={lineup}", describe(graded)]
    if "starter" not in str(lineup):
        lines.append("This grades the REFERENCE, not your work. To grade yours: LAB_IMPL=starter pytest labs")
    return lines
