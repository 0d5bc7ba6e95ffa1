"""Fixtures for all tests of the command line."""

import pytest
from typer.testing import CliRunner, Result

from mini_vllm_labs.cli.main import app


class Commands:
    """Runs commands in this process, with 100 columns, with or without `LAB_IMPL`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("LAB_IMPL", raising=False)
        monkeypatch.setenv("COLUMNS", "100")
        self.monkeypatch = monkeypatch

    def __call__(self, *arguments: object, exit_code: int = 0, typed: str | None = None) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=typed)
        assert result.exit_code == exit_code, result.output
        assert "\x1b" not in result.output, "escape codes although nothing here is a terminal"
        return result


@pytest.fixture
def mini_vllm(monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(monkeypatch)
