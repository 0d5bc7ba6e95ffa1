"""`mini-vllm place`: its questions match the reference, guessing does not skip any phase, and its advice can be
followed."""

import json
from collections import Counter

import pytest

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm_labs.viva import placement
from mini_vllm_labs.viva.placement import (
    FILE,
    LEAST_RIGHT,
    NUM_EACH,
    TOPICS,
    advice,
    first_phase,
    make_sheets,
    recorded,
)
from mini_vllm_labs.viva.sheet import VivaQuestion
from tests.cli.conftest import Commands

SHEETS = recorded()
SKIPPED = {"tokens and chunks": 1, "blocks": 2, "preemption": 3, "": 4}


def test_the_recorded_questions_are_the_references() -> None:
    assert FILE.read_text(encoding="utf-8") == make_sheets()


def test_a_sheet_has_four_questions_of_each_topic_and_no_answer_that_guesses_hit() -> None:
    for sheet in SHEETS:
        assert Counter(map(placement.topic_of, sheet)) == dict.fromkeys(TOPICS, NUM_EACH)
        for topic in TOPICS:
            asked = [one for one in sheet if placement.topic_of(one) == topic]
            assert max(Counter(one.right for one in asked).values()) < LEAST_RIGHT
    assert len({one.text for sheet in SHEETS for one in sheet}) > 8 * len(TOPICS)


@pytest.mark.parametrize(("topic", "phase"), SKIPPED.items())
def test_the_first_topic_that_is_not_known_decides(topic: str, phase: int) -> None:
    for sheet in SHEETS:
        given = answers(sheet, topic, 2)
        assert first_phase(sheet, given) == phase
        assert first_phase(sheet, answers(sheet, topic, 1)) == 4, "one mistake in a topic is forgiven"


def answers(sheet: list[VivaQuestion], topic: str, num_wrong: int) -> list[int | None]:
    """Return correct answers, except that `num_wrong` questions on one topic are skipped."""
    wrong = [place for place, one in enumerate(sheet) if placement.topic_of(one) == topic][:num_wrong]
    return [None if place in wrong else one.right for place, one in enumerate(sheet)]


def test_the_command_names_a_phase_and_a_lineup_that_runs(mini_vllm: Commands) -> None:
    typed = "".join(f"{one.right}\n" for one in SHEETS[1])
    shown = mini_vllm("place", "--seed", "1", typed=typed).output
    assert "12 of 12 right" in shown
    assert "Begin with phase 4, prefix cache: labs/phase4_prefix_cache/README.md" in shown
    assert "LAB_IMPL=solution:1-3,starter:4 mini-vllm trace" in shown
    assert "Begin with phase 1, scheduler step" in mini_vllm("place", "--seed", "0", typed="/quit\n").output


@pytest.mark.parametrize("phase", [2, 3, 4])
def test_the_advice_of_an_edition_without_the_reference_names_none(phase: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = (line for line in advice(phase) if "LAB_IMPL=" in line)
    parse_lineup(line.partition("LAB_IMPL=")[2].partition(" ")[0])
    monkeypatch.setattr(placement, "solutions_exist", lambda: False)
    text = json.dumps(advice(phase))
    assert "LAB_IMPL" not in text
    assert f"mini-vllm grade --phase {phase}" in text
