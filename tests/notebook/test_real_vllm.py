"""Tests what a notebook shows about a whole vLLM if the environment is missing, or if the scheduler fails."""

import json
import subprocess
from types import SimpleNamespace

import pytest

from mini_vllm_labs.fresh.process import in_fresh_process
from mini_vllm_labs.notebook import Lab, Notice, phase_code
from mini_vllm_labs.notebook.real_vllm import NOT_MADE, both, in_vllm, run_both, texts


def test_without_the_environment_one_sentence_says_how_to_make_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mini_vllm_labs.inside_vllm.environment.is_made", lambda: False)
    lab = Lab(5, "solution")
    assert str(texts(*in_vllm(lab, 9))).startswith(f"{NOT_MADE}\n20 of 20 texts are equal.")
    assert "Not recorded" in str(both(*in_vllm(lab, 10)))
    assert "when phase 1 is written" in str(texts(*in_vllm(Lab(5, "starter"), 9)))


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ('{"steps": []}\n{"error": "StalledError: nothing was scheduled"}\n', "StalledError: nothing was scheduled"),
        ("", "the last line"),
    ],
)
def test_a_scheduler_that_fails_is_a_notice(printed: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mini_vllm_labs.inside_vllm.environment.is_made", lambda: True)
    asked = list[list[str]]()

    def ran(command: list[str], **how: object) -> SimpleNamespace:
        asked.append(command)
        return SimpleNamespace(stdout=printed, stderr="a line\nthe last line\n")

    monkeypatch.setattr(subprocess, "run", ran)
    with pytest.raises(ValueError, match=expected):
        run_both(9, Lab(5, "solution").lineup())
    assert [blocks for _, blocks, _ in json.loads(asked[0][-1])["rounds"]] == [10, 10], "with the null block"
    monkeypatch.setattr(phase_code, "in_fresh_process", lambda *call, **how: in_fresh_process(int, "no number"))
    notice, _ = in_vllm(Lab(5, "solution"), 9)
    assert isinstance(notice, Notice)
    assert "Your scheduler failed in vLLM" in str(notice)
