"""A learner's history is one readable file, and a class's histories become one page without names."""

import json
import random
import zipfile
from pathlib import Path

import pytest

from mini_vllm_labs.classroom.class_report.learners import PAUSE, learner_of, read_class
from mini_vllm_labs.classroom.class_report.page import as_html
from mini_vllm_labs.classroom.export.downloads import collect
from mini_vllm_labs.cli import hint
from mini_vllm_labs.grading import history, results
from mini_vllm_labs.grading.plan import load_plan
from mini_vllm_labs.grading.results import PhaseGrade, TaskGrade
from tests.cli.conftest import Commands
from tests.judge.test_submission import make_zip

RULE = "test_choose_victim[the last one]"


def graded(at: int, task: str, passed: bool = False, **facts: str) -> dict[str, object]:
    return {"at": at, "what": "graded", "task": task, "passed": passed, **facts}


def made_up(seed: int) -> str:
    """Return a history: tasks in order with one or more tries each, ending most often at 3.2."""
    rng, at, events = random.Random(seed), 0, list[dict[str, object]]()
    for task in ("1.1", "1.2", "2.1", "3.1", "3.2", "4.1"):
        for number in range(rng.randrange(1, 8 if task == "3.2" else 3)):
            at += rng.randrange(30, 3000)
            events.append(graded(at, task, rule=RULE if task == "3.2" else f"test_{task}"))
            if number > 2:
                events.append({"at": at, "what": "hint", "task": task, "step": 1})
        if rng.random() < (0.6 if task == "3.2" else 0.1):
            break
        events.append(graded(at + 10, task, passed=True))
    events.append({"at": at, "what": "missed", "question": "03_preemption, Who goes?"})
    return "\n".join(map(json.dumps, events)) + "\n"


@pytest.fixture
def school(tmp_path: Path) -> Path:
    for seed in range(40):
        (tmp_path / f"learner{seed}" / "work").mkdir(parents=True)
        (tmp_path / f"learner{seed}" / "work" / history.NAME).write_text(made_up(seed), encoding="utf-8")
    return tmp_path


def test_the_page_says_where_a_class_stops_without_names(mini_vllm: Commands, school: Path) -> None:
    page = school / "report.html"
    shown = " ".join(mini_vllm("class-report", school, "--html", page).output.split())
    assert "40 learners with a history" in shown
    assert "Improve first: 1. labs/phase3_preemption/README.md, task 3.2:" in shown
    html = page.read_text(encoding="utf-8")
    assert html.count("<img") == html.count("<summary>As text") == 5
    assert "3.2: the last one" in html
    assert "<script" not in html
    assert "learner1" not in html + shown
    mini_vllm("class-report", school, "--html", page, "--names")
    assert "<td>learner1</td>" in page.read_text(encoding="utf-8")


def test_tries_minutes_and_the_stop_are_those_before_the_first_pass() -> None:
    learner = learner_of(
        "ada",
        [graded(0, "1.1", rule="a"), graded(120, "1.1", rule="b"), graded(180, "1.1", passed=True), graded(9999, "1.1"),
         graded(180 + 10 * PAUSE, "1.2", rule="c"), {"at": 10**6, "what": "hint", "task": "1.2", "step": 1}],
    )  # fmt: skip
    first, second = learner.tasks["1.1"], learner.tasks["1.2"]
    assert (first.tries, first.minutes, first.rules, first.has_passed) == (3, 3.0, {"a", "b"}, True)
    assert (second.tries, second.minutes, second.hints) == (1, 2 * PAUSE / 60, 1), "a long gap is a break"
    assert learner.stopped == "1.2"
    assert learner_of("bob", [graded(0, "1.1", passed=True)]).stopped == ""


def test_a_history_may_be_in_a_zip_and_hold_anything(tmp_path: Path) -> None:
    wrong = ["[]", "{", '{"at": "x"}', '{"at": 1, "task": "99.9"}', '{"at": 1, "task": []}', '{"at": 1}', "[" * 9999]
    missed = json.dumps({"at": 2, "what": "missed", "question": "<b>\x1b"})
    with zipfile.ZipFile(tmp_path / "eve.zip", "w") as archive:
        archive.writestr(f"labs/{history.NAME}", "\n".join([*wrong, json.dumps(graded(1, "1.1")), missed]))
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04")
    [learner] = read_class(tmp_path)
    assert (learner.name, list(learner.tasks), len(learner.missed)) == ("eve", ["1.1"], 1)
    page = as_html([learner], names=True)
    assert "<b>" not in page
    assert "\x1b" not in page


def test_collect_takes_the_history_along(tmp_path: Path, mini_vllm: Commands) -> None:
    (tmp_path / "out").mkdir()
    files = {"lovelaceada_11_901_phase1.py": b"one", f"lovelaceada_11_902_{history.NAME}": made_up(1).encode()}
    assert not collect(make_zip(tmp_path / "x.zip", files), tmp_path / "out").skipped
    assert [learner.name for learner in read_class(tmp_path / "out")] == ["lovelaceada"]
    assert "has no history.jsonl" in " ".join(mini_vllm("class-report", tmp_path / "none", exit_code=2).output.split())


def test_what_a_learner_does_is_kept_unless_the_file_says_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mini_vllm: Commands
) -> None:
    file, phase = tmp_path / history.NAME, load_plan()[0]
    monkeypatch.setattr(history, "FILE", file)
    monkeypatch.setattr(hint, "SEEN", tmp_path / "seen.json")
    failed = results.TestResult("test_task1_1_clamp.py::test_clamp[rule]", "failed")
    tasks = [TaskGrade(phase.tasks[0], [failed]), TaskGrade(phase.tasks[1], [results.TestResult("x", "not started")])]
    history.note_grades([PhaseGrade(phase, "", tasks)])
    assert not file.exists(), "a checkout with the solutions keeps none"
    monkeypatch.setattr(history, "solutions_exist", lambda: False)
    history.note_grades([PhaseGrade(phase, "", tasks)])
    mini_vllm("hint", "1.2")
    events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert all(type(event.pop("at")) is int for event in events)
    assert events == [
        {"what": "graded", "task": "1.1", "passed": False, "rule": "test_clamp[rule]"},
        {"what": "hint", "task": "1.2", "step": 1},
    ]
    file.write_text("off\n", encoding="utf-8")
    mini_vllm("hint", "1.2")
    assert file.read_text(encoding="utf-8") == "off\n"
