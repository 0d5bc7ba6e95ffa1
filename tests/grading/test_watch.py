"""`mini-vllm watch` in a separate terminal, from an untouched starter to the end."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mini_vllm_labs.cli.watching.terminal import MISSING_SECONDS, QUIET_SECONDS, Saves
from tests.grading.checkout import Checkout, solution

pexpect: Any = pytest.importorskip("pexpect", reason="pexpect is not installed: it holds the terminal")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudoterminal")
SESSIONS = yaml.safe_load(Path(__file__).with_name("watch_sessions.yaml").read_text(encoding="utf-8"))
UNWRITTEN = 'raise NotImplementedError("Phase 1, task 1: clamp")'
COMMAND = [sys.executable, "-m", "mini_vllm_labs.cli", "watch"]


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """A shell's background job ignores SIGINT, and so do its child processes."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def student(tmp_path: Path) -> Checkout:
    (tmp_path / "notebooks").mkdir()
    return Checkout(tmp_path, solutions=False)


def environment() -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "LAB_IMPL", "COLUMNS"))
    }
    return kept | {"TERM": "xterm", "NO_COLOR": "1"}


def opened(student: Checkout, arguments: list[str]) -> Any:
    command, *rest = [*COMMAND, *arguments]
    options = {"cwd": student.folder, "env": environment(), "dimensions": (50, 160), "encoding": "utf-8"}
    return pexpect.spawn(command, rest, timeout=120, **options)


def save(path: Path, text: str) -> None:
    beside = path.with_suffix(".swp")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


@pytest.mark.parametrize("name", SESSIONS)
def test_a_learner_at_a_terminal(student: Checkout, name: str) -> None:
    student.solve(*SESSIONS[name].get("solved", ()))
    starter = student.starter(SESSIONS[name].get("phase", 1))
    untouched = starter.read_text(encoding="utf-8")
    child = opened(student, SESSIONS[name]["arguments"])
    for step in SESSIONS[name]["steps"]:
        match step:
            case {"see": text}:
                child.expect_exact(text)
                assert step.get("unseen", "\0") not in child.before, step
            case {"press": text}:
                child.send(text)
            case {"clamp": None}:
                starter.unlink()
            case {"clamp": body}:
                save(starter, untouched.replace(UNWRITTEN, body))
            case {"solve": phase, "but": [right, wrong]}:
                save(starter, solution(phase).replace(right, wrong))
            case {"answer": notebook, "number": number}:
                answers = {str(place): {"question": "yes"} for place in range(number)}
                (student.folder / "notebooks" / f"{notebook}.predictions.json").write_text(json.dumps(answers))
            case {"sleep": seconds}:
                assert not child.getecho(), "keys are read one by one"
                time.sleep(seconds)
            case {"signal": number}:
                child.kill(number)
            case {"restart": arguments}:
                child.close()
                child = opened(student, arguments)
    assert child.getecho(), "the terminal is as a shell wants it"
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_without_a_terminal_it_prints_verdicts_until_it_is_stopped(student: Checkout) -> None:
    command = [*COMMAND, "--phase", "1"]
    with subprocess.Popen(
        command, cwd=student.folder, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        first = next(line for line in process.stdout if line.startswith("Write"))
        student.solve(1)
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("Phase 1 runs in an engine"):
                break
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert first == "Write 1.1 clamp (4 lines, 5 minutes)\n"
    assert sum("tests pass" in line for line in lines) == 5
    assert "mini-vllm approaches 1.1" in "".join(lines)
    assert (process.returncode, rest.splitlines()[-1][:8]) == (0, "Stopped.")


def test_a_change_counts_when_the_file_has_been_quiet(tmp_path: Path) -> None:
    path, saves = tmp_path / "starter.py", Saves([tmp_path / "starter.py"])
    path.write_text("three")
    assert saves.poll(1) == []
    path.write_text("three four")
    assert saves.poll(1 + QUIET_SECONDS) == [], "it was still written"
    assert saves.poll(1 + 2 * QUIET_SECONDS) == [path]
    assert saves.poll(9) == []
    path.unlink()
    assert saves.poll(10) == saves.poll(10 + QUIET_SECONDS) == [], "between two steps of a save"
    assert saves.poll(10 + MISSING_SECONDS) == [path]
