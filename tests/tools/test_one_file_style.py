"""The engine in one file passes the same style and type checks as the rest."""

import sys
from pathlib import Path
from subprocess import run

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.classroom.one_file import compose as composed
from tests.cli.conftest import Commands


def test_mypy_and_ruff_find_nothing(mini_vllm: Commands, tmp_path: Path) -> None:
    mini_vllm("one-file", tmp_path / "file")
    # With the settings from `make lint`, mypy finds PyTorch already parsed in that run's cache.
    for check in (["ruff", "check"], ["ruff", "format", "--check"], ["mypy", "--strict"]):
        config = f"--config{'-file' if check[0] == 'mypy' else ''}={CHECKOUT / 'pyproject.toml'}"
        command = [sys.executable, "-m", *check, config, str(tmp_path / "file" / composed.FILE_NAME)]
        done = run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
