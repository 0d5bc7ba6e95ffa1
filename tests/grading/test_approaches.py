"""Approaches are other ways to write a task; they open after a pass and are never plain text."""

import base64
import codecs
import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from mini_vllm_labs.grading import approaches
from mini_vllm_labs.grading.approaches import FOLDER, Approach, sealed, unsealed
from mini_vllm_labs.grading.plan import load_whole_plan
from tests.grading.checkout import Checkout
from tests.mutants.approaches import chosen


def test_every_task_with_code_of_its_own_has_some_and_the_seals_hold_what_is_chosen() -> None:
    found, wanted = chosen(), set[str]()
    for phase in load_whole_plan():
        own = [task for task in phase.tasks if not any("_in_an_engine" in test for test in task.tests)]
        wanted |= {f"{phase.number}.{task.number}" for task in own}
    assert set(found) == wanted
    assert {task: unsealed(task) for task in wanted} == found, "python -m tests.mutants.approaches"
    for task, ways in found.items():
        assert 1 <= len(ways) <= 5, task
        assert all(one.cost.endswith((".", ")")) and "solutions" not in one.code for one in ways), task


def test_a_seal_is_not_read_by_turning_or_unpacking_it() -> None:
    """tests/edition/test_release.py shows that no file contains their code as plain text."""
    words = {word for found in chosen().values() for one in found for word in one.cost.split() if len(word) > 8}
    for path in FOLDER.iterdir():
        text = path.read_text(encoding="utf-8")
        raw = [base64.b85decode(value) for value in json.loads(text).values()]
        shown = [text, codecs.decode(text, "rot13"), *(one.decode(errors="replace") for one in raw)]
        assert not [word for word in words if any(word in one for one in shown)], path.name
        for one in raw:
            with pytest.raises(zlib.error):
                zlib.decompress(one)


def test_a_seal_belongs_to_its_task_and_to_its_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approaches, "FOLDER", tmp_path)
    text = sealed("1.1", [Approach("one", "It costs nothing.", "pass\n")])
    (tmp_path / "phase1.json").write_text(json.dumps({"1.1": text, "1.2": text}))
    assert unsealed("1.1") == [Approach("one", "It costs nothing.", "pass\n")]
    with pytest.raises(ValueError, match=r"1\.2 were sealed against different tests"):
        unsealed("1.2")
    with pytest.raises(ValueError, match=r"unknown task 1\.9; the tasks are 1\.1, 1\.2"):
        approaches.task_named("1.9")


def test_they_open_after_a_pass_and_not_before(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, solutions=False)

    def asked() -> tuple[int, str]:
        command = [sys.executable, "-m", "mini_vllm_labs.cli", "approaches", "1.1"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    code, printed = asked()
    assert (code, "shown once yours passes" in printed, "sorted" in printed) == (1, True, False)
    checkout.solve(1)
    code, printed = asked()
    assert (code, printed.count("another way, ")) == (0, 4)
    assert "return sorted([0, sorted(caps)[0]])[-1]" in printed
    text = checkout.starter(1).read_text(encoding="utf-8")
    checkout.starter(1).write_text(text.replace("max(0, ", "max(1, ", 1), encoding="utf-8")
    assert asked()[0] == 1, "it is what is saved that counts"
