"""Approaches: other ways to write a task, which open after a pass and are plain text nowhere in the edition."""

import ast
import base64
import codecs
import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from course.grading import approaches
from course.grading.approaches import FOLDER, Approach, sealed, unsealed
from course.grading.plan import load_whole_plan
from tests.grading.checkout import Checkout
from tests.mutants.approaches import chosen

TASKS = [f"{phase.number}.{task.number}" for phase in load_whole_plan() for task in phase.tasks]


def test_the_seals_hold_what_is_chosen() -> None:
    assert {task: unsealed(task) for task in TASKS if unsealed(task)} == chosen(), "python -m tests.mutants.approaches"


def test_every_task_with_code_of_its_own_has_some_and_each_says_what_it_costs() -> None:
    for phase in load_whole_plan():
        with_code = [task.number for task in phase.tasks if not any("_in_an_engine" in test for test in task.tests)]
        for number in with_code:
            found = unsealed(f"{phase.number}.{number}")
            assert 1 <= len(found) <= 5, f"{phase.number}.{number}"
            for one in found:
                assert ast.parse(one.code).body, one.name
                assert one.cost.endswith((".", ")")), one.name
                assert "solutions" not in one.code, one.name


def test_a_seal_is_not_read_by_turning_or_unpacking_it() -> None:
    """That no file has their code as plain text is what tests/course/test_release.py shows."""
    words = {word for found in chosen().values() for one in found for word in one.cost.split() if len(word) > 8}
    assert len(words) > 100
    for path in FOLDER.iterdir():
        text = path.read_text(encoding="utf-8")
        read = [text, codecs.decode(text, "rot13")]
        for value in json.loads(text).values():
            raw = base64.b85decode(value)
            read.append(raw.decode(errors="replace"))
            with pytest.raises(zlib.error):
                zlib.decompress(raw)
        assert not any(word in shown for word in words for shown in read), path.name


def test_a_seal_belongs_to_its_task_and_to_its_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approaches, "FOLDER", tmp_path)
    text = sealed("1.1", [Approach("one", "It costs nothing.", "pass\n")])
    (tmp_path / "phase1.json").write_text(json.dumps({"1.1": text, "1.2": text}))
    assert unsealed("1.1") == [Approach("one", "It costs nothing.", "pass\n")]
    with pytest.raises(ValueError, match=r"1\.2 were sealed for other tests"):
        unsealed("1.2")
    with pytest.raises(ValueError, match=r"no task 1\.9; there are 1\.1, 1\.2"):
        approaches.task_named("1.9")


def test_they_open_after_a_pass_and_not_before(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, solutions=False)

    def asked(task: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "cli", "approaches", task]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    code, printed = asked("1.1")
    assert (code, "shown once yours passes" in printed, "sorted" in printed) == (1, True, False)
    checkout.solve(1)
    code, printed = asked("1.1")
    assert (code, printed.count("another way, ")) == (0, 4)
    assert "return sorted([0, sorted(caps)[0]])[-1]" in printed
    text = checkout.starter(1).read_text(encoding="utf-8")
    checkout.starter(1).write_text(text.replace("max(0, ", "max(1, ", 1), encoding="utf-8")
    assert asked("1.1")[0] == 1, "it is what is saved that counts"
