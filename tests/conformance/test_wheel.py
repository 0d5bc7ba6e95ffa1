"""The suite's own wheel runs in an environment that contains nothing else."""

import os
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.runs.parity import drawn
from mini_vllm_labs.upkeep.conformance_wheel import build
from tests.conformance.asked import recorded


def test_the_wheel_needs_nothing_else(tmp_path: Path) -> None:
    wheel = build(tmp_path, ["0.13.0"], ["plain"])
    assert wheel.stat().st_size <= 3_000_000
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    # The engine needs the folder; -I keeps the suite from importing anything from it.
    command = [str(python), "-I", "-m", "vllm_scheduler_conformance"]
    for options, code, said in (
        (["--name", "budget_cap"], 0, "1 of 1 scenarios asked"),
        (["--kind", "lora"], 2, "error: release 0.13.0 or 0.33.0 has no scenarios of kind lora"),
    ):
        asked = [*command, *options, "--", *recorded()]
        done = subprocess.run(asked, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done


def test_the_whole_wheel_holds_all_traces_and_the_licence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "EACH", 1)
    monkeypatch.setattr(drawn, "MIXED", 1)
    wheel = build(tmp_path)
    assert wheel.stat().st_size <= 16_000_000
    names = ZipFile(wheel).namelist()
    assert {Path(name).name for name in names} >= {"LICENSE", "CITATION.cff", "rules.json", "gates33.jsonl.gz"}
    assert sum(name.endswith("drawn.jsonl.gz") for name in names) == 2
    assert sum(name.endswith("README.md") for name in names) == 2
    sources = [ZipFile(wheel).read(name).decode() for name in names if name.endswith(".py")]
    assert not any("mini_vllm_labs" in source for source in sources)
