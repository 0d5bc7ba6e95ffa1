"""Tests what `mini-vllm tutor` gives an assistant, without its protocol (`mcp_tutor.py` tests that)."""

from pathlib import Path

import pytest

from mini_vllm_labs.cli import hint as hints
from mini_vllm_labs.cli import tutor as tutoring
from mini_vllm_labs.cli.tutor import Tutor
from mini_vllm_labs.grading.plan import load_whole_plan

TASKS = [f"{phase.number}.{task.number}" for phase in load_whole_plan() for task in phase.tasks]


def test_hints_come_one_by_one_and_end_before_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "SEEN", tmp_path / "seen.json")
    starter = tmp_path / "starter.py"
    monkeypatch.setattr(tutoring, "starter_path", lambda phase: starter)
    tutor, ladders = Tutor(), hints.all_hints()
    for task in TASKS:
        ladder, given = ladders[task], list[str]()
        for number in range(len(ladder) + 1):
            starter.write_text(f"# try {number}")
            given.append(tutor.hint(task))
            assert ladder[-1][1] not in given[-1]
        assert [text.split("\n\n", 1)[-1] for text in given[: len(ladder) - 1]] == [text for _, text in ladder[:-1]]
        assert given[-1].endswith(f"Only the learner asks for that: mini-vllm hint {task}")


def test_every_task_has_rules() -> None:
    for task in TASKS:
        text = Tutor().rules(task)
        assert f"### Task {task} " in text
        assert "## The rules" in text or task.startswith("13.")
        assert "<!--" not in text


@pytest.mark.parametrize("path", ["../x.jsonl", "/etc/hostname", "a/../../x.jsonl", "link.jsonl", "missing.jsonl", "."])
def test_no_path_leads_out_of_the_folder(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "learner"
    folder.mkdir()
    (tmp_path / "x.jsonl").write_text("{}")
    (folder / "link.jsonl").symlink_to(tmp_path / "x.jsonl")
    (folder / "mine.jsonl").write_text("{}")
    assert Tutor(folder).inside("mine.jsonl") == folder / "mine.jsonl"
    with pytest.raises(ValueError, match=r"is outside the learner's folder|is not a trace"):
        Tutor(folder).inside(path)
