"""`mini-vllm watch` as a learner meets it: at a terminal of its own, from an untouched starter to the end."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.watching.saves import MISSING_SECONDS, QUIET_SECONDS, Saves
from mini_vllm.assembly.lineup import CHECKOUT
from tests.cli.conftest import Commands
from tests.grading.checkout import Checkout, solution

pexpect: Any = pytest.importorskip("pexpect", reason="pexpect is not installed: it holds the terminal")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudoterminal")
UNWRITTEN = 'raise NotImplementedError("Phase 1, task 1: clamp")'
KEYS = "s share  q quit"
COMMAND = [sys.executable, "-m", "cli", "watch"]


@pytest.fixture
def student(tmp_path: Path) -> Checkout:
    checkout = Checkout(tmp_path, solutions=False)
    (checkout.folder / "mini_vllm" / "embedded_model").unlink()
    return checkout


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "LAB_IMPL"))}
    return kept | {"TERM": "xterm", "NO_COLOR": "1"} | more


class Terminal:
    """A running `mini-vllm watch`; `see` waits for a text and returns what came before it."""

    def __init__(self, checkout: Checkout, *arguments: str) -> None:
        self.starter = checkout.starter(1)
        program = [*COMMAND[1:], *arguments]
        self.child = pexpect.spawn(
            sys.executable, program, cwd=checkout.folder, env=environment(), dimensions=(50, 110), encoding="utf-8"
        )

    def see(self, text: str) -> str:
        self.child.expect_exact(text, timeout=120)
        return str(self.child.before)

    def press(self, keys: str) -> None:
        self.child.send(keys)

    def save(self, text: str) -> None:
        """Save by renaming, as many editors do."""
        beside = self.starter.with_suffix(".swp")
        beside.write_text(text, encoding="utf-8")
        beside.replace(self.starter)

    def is_waiting_for_lines(self) -> bool:
        """Return whether the terminal echoes again, as a shell wants it."""
        return bool(self.child.getecho())

    def ended(self) -> int | None:
        self.child.expect(pexpect.EOF, timeout=60)
        self.child.close()
        status: int | None = self.child.exitstatus
        return status


@pytest.fixture
def terminals(student: Checkout) -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.child.close(force=True)


def test_a_learner_from_an_untouched_starter_to_a_pass(student: Checkout, terminals: list[Terminal]) -> None:
    untouched = student.starter(1).read_text(encoding="utf-8")
    terminals.append(terminal := Terminal(student, "--finish", "scheduler"))
    assert "starter.py:18" in terminal.see(KEYS), "what to write, and where"
    terminal.press("h")
    terminal.see("Task 1.1, hint 1 of 2")
    terminal.press("a")
    terminal.see("Nothing has passed yet")
    terminal.press("o")
    terminal.see("no learner's code is in it")
    terminal.see("o: the next step")
    terminal.save(untouched.replace(UNWRITTEN, "return min(num_new, budget"))
    assert "Traceback" not in terminal.see("'(' was never closed")
    terminal.save(untouched.replace(UNWRITTEN, "return max(0, min(num_new, budget, threshold))"))
    assert "Graded: your labs/phase1_scheduler_step/starter.py, in " in terminal.see("of 10 tests pass")
    terminal.see("Hint: which of the three is the smallest here")
    right = untouched.replace(UNWRITTEN, "return max(0, min(num_new, budget, threshold or num_new))")
    terminal.save(right)
    terminal.see("✓ 1.1 clamp (4 lines, 5 minutes): all 10 tests pass")
    terminal.see("Write 1.2")
    terminal.see(KEYS)
    terminal.press("a")
    terminal.see("another way, 1 of 4: clamp by sorting")
    terminal.press("l")
    assert "✓ 1.1" in terminal.see("1.2 schedule_step, RUNNING (18 lines, 30 minutes)  <- now")
    terminal.press("n")
    terminal.see("Write 1.3")
    broken = solution(1).replace("return max(0, num_new)", "return num_new").replace("max(0, ", "max(-1, ")
    assert broken != solution(1)
    terminal.save(broken)
    terminal.see("✓ 1.3")
    terminal.see("It passed before, and fails now.")
    terminal.press("l")
    assert "~ 1.3" not in terminal.see("1.1 clamp (4 lines, 5 minutes)  <- now")
    terminal.press("\x03")
    terminal.see("Stopped.")
    assert terminal.ended() == 0


def test_the_end_is_a_run_of_the_learners_engine_and_a_page(student: Checkout, terminals: list[Terminal]) -> None:
    student.solve(1, 2, 3)
    terminals.append(terminal := Terminal(student, "--finish", "scheduler"))
    seen = terminal.see("This is your engine, and you have finished: scheduler.")
    assert "3 preemption: yours, 4 prefix cache: absent" in seen.replace("\r\n   ", "")
    assert "Phase 3 runs in one engine with your phases before it" in seen
    page = student.folder / "mini-vllm-scheduler.html"
    terminal.see(KEYS)
    assert "3 preemption: the learner&#x27;s" in page.read_text(encoding="utf-8")
    page.write_text("mine", encoding="utf-8")
    terminal.press("s")
    terminal.see("mini-vllm-scheduler-2.html")
    assert page.read_text(encoding="utf-8") == "mine"
    terminal.press("q")
    assert terminal.ended() == 0
    terminals.append(again := Terminal(student))
    assert "Graded:" not in again.see("This is your engine"), "ticks and the finish are kept"


def test_a_save_during_a_run_replaces_it_and_signals_leave_the_terminal_sane(
    student: Checkout, terminals: list[Terminal]
) -> None:
    untouched = student.starter(1).read_text(encoding="utf-8")
    terminals.append(terminal := Terminal(student))
    terminal.see(KEYS)
    assert not terminal.is_waiting_for_lines()
    terminal.save(untouched.replace(UNWRITTEN, "while True: pass"))
    time.sleep(2)  # well within the first of several tests that take 5 s each
    terminal.save(untouched.replace(UNWRITTEN, "return max(0, min(num_new, budget, threshold or num_new))"))
    assert "tests pass" not in terminal.see("✓ 1.1"), "the verdict on the loop is not shown"
    student.starter(1).unlink()
    terminal.see("is missing. `git checkout")
    terminal.child.kill(signal.SIGTERM)
    terminal.see("Stopped.")
    assert terminal.is_waiting_for_lines()
    assert terminal.ended() == 0


def test_without_a_terminal_it_prints_verdicts_until_it_is_stopped(student: Checkout) -> None:
    with student.starter(1).open("a", encoding="utf-8") as file:
        file.write("# mine\n")
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


def test_an_observer_ends_with_the_recorded_run(student: Checkout, terminals: list[Terminal]) -> None:
    shutil.copytree(CHECKOUT / "notebooks", student.folder / "notebooks", ignore=shutil.ignore_patterns("*.json"))
    terminals.append(terminal := Terminal(student, "--finish", "observer"))
    terminal.see("00_tour.ipynb: 0 of")
    terminal.see("08_spot_the_bug.ipynb: 0 of 21 answered")
    for name, count in (("00_tour", 40), ("08_spot_the_bug", 21)):
        answers = {f"group {number}": {"question": "yes"} for number in range(count)}
        path = student.folder / "notebooks" / f"{name}.predictions.json"
        path.write_text(json.dumps(answers), encoding="utf-8")
    terminal.see("finished: observer.")
    terminal.see("mini-vllm-observer.html")
    terminal.press("q")
    assert terminal.ended() == 0


def test_a_change_counts_when_the_file_has_been_quiet(tmp_path: Path) -> None:
    path = tmp_path / "starter.py"
    path.write_text("one")
    saves = Saves([path])
    assert saves.poll(0) == []
    path.write_text("three")
    assert saves.poll(1) == []
    path.write_text("three four")
    assert saves.poll(1 + QUIET_SECONDS) == [], "it was still written"
    assert saves.poll(1 + 2 * QUIET_SECONDS) == [path]
    assert saves.poll(9) == []
    path.unlink()
    assert saves.poll(10) == saves.poll(10 + QUIET_SECONDS) == [], "between two steps of a save"
    path.write_text("three four")
    assert saves.poll(11) == []
    assert saves.poll(11 + QUIET_SECONDS) == [path]
    path.unlink()
    assert saves.poll(20) == []
    assert saves.poll(20 + MISSING_SECONDS) == [path]


def test_an_unknown_finish_or_phase_is_refused(mini_vllm: Commands) -> None:
    assert "observer" in mini_vllm("watch", "--finish", "tourist", exit_code=2).output
    assert "there are phases 1 to 12" in mini_vllm("watch", "--phase", "13", exit_code=2).output
