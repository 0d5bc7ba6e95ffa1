"""Each command rejects impossible requests with a message that names the problem, exit code 2 and no traceback."""

import shlex
import sys
from pathlib import Path

import pytest
import yaml

from mini_vllm.installation import install_command
from tests.cli.conftest import Commands

REFUSALS = yaml.safe_load(Path(__file__).with_name("refusals.yaml").read_text(encoding="utf-8"))
CASES = [(command, options, words) for command, cases in REFUSALS.items() for options, words in cases.items()]


@pytest.mark.parametrize(("command", "options", "words"), CASES)
def test_it_is_refused_with_a_reason(mini_vllm: Commands, command: str, options: str, words: str) -> None:
    shown = mini_vllm(*command.split(), *shlex.split(options), exit_code=2).output
    assert words in " ".join(shown.split())
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    ("module", "extra", "line"),
    [("distributed", "dask", "arena --dask tcp://127.0.0.1:1 --requests 5"), ("mcp.server", "tutor", "tutor")],
)
def test_an_extra_that_is_not_installed_is_named(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch, module: str, extra: str, line: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    shown = mini_vllm(*line.split(), exit_code=2).output
    assert f": {install_command(extra)}" in " ".join(shown.split())
