"""`lab.talk`: several chats on phases 1 to 5; a step that raises an error is explained, and earlier text stays."""

from typing import Any

import pytest

import mini_vllm_labs.fresh.talk as talking
from mini_vllm import LLM, EngineConfig, SamplingParams
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm_labs.notebook import Lab
from mini_vllm_labs.notebook.notice import Notice

QUESTIONS = ("What is the capital of Norway?", "What is 12 plus 7?")


def test_a_step_that_raises_leaves_what_was_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    lineup, config = parse_lineup("solution:1-5"), EngineConfig(num_gpu_blocks=40, block_size=8)
    whole = talking.talk(QUESTIONS, config, SamplingParams(max_tokens=12), lineup)
    assert whole.texts[QUESTIONS[0]] == "The capital of Norway is Oslo."
    assert whole.problem == ""

    class Failing(LLM):
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            schedule, steps = self.engine.scheduler.schedule, iter(range(99))

            def failing() -> Any:
                if next(steps) == 4:
                    raise SystemExit(3)
                return schedule()

            self.engine.scheduler.schedule = failing  # type: ignore[method-assign]

    monkeypatch.setattr(talking, "LLM", Failing)
    cut = talking.talk(QUESTIONS, config, SamplingParams(max_tokens=12), lineup)
    assert cut.problem == "Your code ended the program (SystemExit: 3)."
    assert cut.texts[QUESTIONS[0]] == "The capital of Norway"
    assert str(cut).endswith(cut.problem)
    assert len(cut.recording.steps) == 4


@pytest.mark.parametrize("phase", [1, 2, 3, 4, 5])
def test_the_lab_talks_with_what_is_written_so_far(phase: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert not isinstance(Lab(phase, "solution").talk(QUESTIONS[0], max_tokens=12), Notice)
    assert "The capital of Norway is Oslo." in capsys.readouterr().out
