"""The incidents as cards of notebook 07: runs decide the correct answers, and learners' answers are stored by seed."""

from dataclasses import replace
from pathlib import Path

import pytest

from mini_vllm import parse_lineup
from mini_vllm_labs.notebook import Lab, Notice, Predictions
from mini_vllm_labs.notebook import incidents as cards
from mini_vllm_labs.pictures.prediction.widgets import Deck
from mini_vllm_labs.simulation.incidents import Incident, incidents


def only_first(seed: int) -> list[Incident]:
    return incidents(seed)[:1]


def deck_of(seed: int, guess: Predictions) -> Deck:
    lineup = replace(parse_lineup("solution:1-5"), runner="absent")

    class Run(Lab):
        def run(self, function: object, *arguments: object, phases: int = 5) -> object:  # type: ignore[override]
            return cards.run_incidents(seed, lineup)

    shown = cards.incident_deck(Run(5, "solution"), guess, seed)
    assert not isinstance(shown, Notice)
    return shown


def test_the_card_is_decided_by_the_runs_and_its_answer_is_kept_by_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "incidents", only_first)
    guess = Predictions("07_tuning", folder=tmp_path)
    deck = deck_of(0, guess)
    [card], runs = deck.cards, only_first(0)[0].run(parse_lineup("solution:1-5"))
    assert card["truth"] == f"{runs.best + 1}: {runs.incident.knobs[runs.best]}"
    assert card["truth"] in card["question"]["options"]
    assert card["why"] == runs.lesson()
    assert len(card["text"].splitlines()) == 5
    assert "knob 4" in card["pictures"][0]
    deck.answers = {card["title"]: card["truth"]}
    assert deck_of(0, guess).answers == {card["title"]: card["truth"]}
    question = cards.card_of(only_first(1)[0].run(parse_lineup("solution:1-5"))).question
    assert question.text != card["question"]["text"], "answers are kept by the text, and another seed has others"
