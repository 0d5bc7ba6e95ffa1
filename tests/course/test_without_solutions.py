"""The student edition: a checkout without `solutions/` grades and runs the learner's own code."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json
from mini_vllm import EngineConfig, LLM, parse_lineup
from mini_vllm.assembly.lineup import Lineup, default_lineup_text, lineup_from_env
from mini_vllm.assembly.parts import solutions_exist

def outcome(action):
    try:
        return ["nothing", str(action())]
    except Exception as error:
        return [type(error).__name__, str(error)]

config = EngineConfig(max_model_len=40, num_gpu_blocks=12, block_size=4)
print(json.dumps({
    "default": default_lineup_text(),
    "exist": solutions_exist(),
    "from_env": str(lineup_from_env()),
    "starter": outcome(lambda: parse_lineup("starter")),
    "solution": outcome(lambda: parse_lineup("solution")),
    "mixed": outcome(lambda: parse_lineup("starter:1-3,solution:4")),
    "build": outcome(lambda: LLM(config=config, lineup=parse_lineup("starter:1-5"))),
    "phase 1": outcome(lambda: LLM(config=config, lineup=parse_lineup("starter:1")).generate("hello")),
}))
"""


@pytest.fixture(params=["no folder", "a folder with nothing but compiled files"])
def student_edition(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The program's output in a checkout without solutions, on a Python without site-packages.

    `-S` keeps an installed mini-vLLM, with its own solutions, out of sight. Git leaves the folder with its
    compiled files behind when it removes the sources.
    """
    for package in ("mini_vllm", "course", "labs"):
        ignore = shutil.ignore_patterns("__pycache__", "embedded_model", "*.gz")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignore)
    if request.param != "no folder":
        (tmp_path / "solutions" / "__pycache__").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM], cwd=tmp_path, env={}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


def test_the_default_is_the_learners_own_code(student_edition: dict[str, Any]) -> None:
    assert (student_edition["exist"], student_edition["default"]) == (False, "starter")
    assert student_edition["from_env"] == "starter"
    assert student_edition["starter"] == ["nothing", "starter"]


def test_an_untouched_engine_names_the_task_to_write(student_edition: dict[str, Any]) -> None:
    kind, message = student_edition["build"]
    assert kind == "NotImplementedError"
    assert message.startswith("Phase ")
    assert student_edition["phase 1"][0] == "NotImplementedError"
    assert student_edition["phase 1"][1].startswith("Phase 1, task")


@pytest.mark.parametrize("lineup", ["solution", "mixed"])
def test_asking_for_the_reference_is_refused_in_plain_words(student_edition: dict[str, Any], lineup: str) -> None:
    kind, message = student_edition[lineup]
    assert kind == "ValueError"
    assert "no reference solutions" in message
    assert "'starter'" in message
