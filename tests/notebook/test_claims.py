"""The cards of notebook 08: the engine decides the correct answer, and their statements about the run match the run."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from mini_vllm import Lineup, parse_lineup
from mini_vllm.release_rules import RELEASES
from mini_vllm_labs.notebook import Lab, Predictions
from mini_vllm_labs.notebook.claims import all_claims, deck, evidence, setup_of
from mini_vllm_labs.notebook.claims.claim import Claim
from mini_vllm_labs.notebook.claims.decide import SEATS, card_of, play_claim, play_claims, play_seats
from mini_vllm_labs.notebook.panels import require_result
from mini_vllm_labs.pictures.prediction import Answer, Card
from mini_vllm_labs.pictures.prediction.widgets import Deck
from tests.notebook.files import load

EXPECTED = load("claims.yaml")


@pytest.fixture(scope="module")
def cards() -> dict[str, Card]:
    played = play_claims(parse_lineup("solution:1-5"))
    return {claim.title: card_of(claim, played[claim.title]) for claim in all_claims()}


def named(title: str) -> Claim:
    return next(claim for claim in all_claims() if claim.title == title)


def decide(title: str, lineup: Lineup) -> Answer | None:
    return card_of(named(title), play_claim(named(title), lineup)).truth


@pytest.mark.parametrize("title", EXPECTED)
def test_the_engine_decides_the_card(cards: dict[str, Card], title: str) -> None:
    truth, *patterns = EXPECTED[title]
    assert cards[title].truth == truth
    for pattern in patterns:
        assert re.search(pattern, cards[title].text), f"no {pattern!r} in\n{cards[title].text}"


@pytest.mark.parametrize("claim", [one for one in all_claims() if one.setups], ids=lambda claim: claim.title)
def test_a_card_says_if_the_newest_release_decides_differently(cards: dict[str, Card], claim: Claim) -> None:
    config = {name: replace(setup.config, vllm=RELEASES[-1]) for name, setup in claim.setups.items()}
    setups = {name: setup._replace(config=config[name]) for name, setup in claim.setups.items()}
    played = play_claim(replace(claim, setups=setups), parse_lineup("solution:1-5,solution:14"))
    is_same = card_of(claim, played).truth == cards[claim.title].truth
    assert is_same == ("Since 0." not in claim.why)


def test_sixteen_seats_and_five_that_run_have_six_causes() -> None:
    played = play_seats(parse_lineup("solution:1-5"))
    truths = []
    for claim in all_claims(SEATS):
        run = played[claim.title][0]
        assert not isinstance(run, str)
        step = run.recording.steps[int(claim.step)]
        assert (run.recording.info.max_num_seqs, len(step["running_after"])) == (16, 5)
        card = card_of(claim, played[claim.title], brief=False)
        truths.append(card.truth)
        ((_, film, shown),) = card.films
        assert "why they wait" in film[shown].svg()
        assert str(card.truth) not in claim.setup
    assert truths == list(card.question.options)


def test_guessing_does_not_pay(cards: dict[str, Card]) -> None:
    assert list(cards) == list(EXPECTED)
    assert len(cards) == 33
    counts = Counter(str(card.truth) for card in cards.values())
    assert counts["true"] + 1 == counts["false"] == 8, "the same answer to all is right 8 times of 33"


def test_another_engine_gets_another_verdict() -> None:
    no_cache = parse_lineup("solution:1-3,solution:5")
    assert decide("All work is lost", no_cache) == "true"
    assert decide("Shared is shared", no_cache) == 21
    assert decide("Shared in the same step", no_cache) == "false"


def test_each_card_has_its_films_and_its_question_does_not_tell_the_answer(cards: dict[str, Card]) -> None:
    for card in cards.values():
        assert card.pictures or card.films
        assert card.text
        assert "False" not in card.setup + card.claim + card.question.text
    assert [film[step].sentence for _, film, step in cards["All work is lost"].films] == [
        "B is resumed: 12 of its 25 tokens are in the prefix cache."
    ]


def test_an_engine_that_fails_says_so_on_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise ValueError("block 4 is free and held")

    monkeypatch.setattr("mini_vllm_labs.notebook.claims.decide.play_workload", fail)
    claim = named("All work is lost")
    card = card_of(claim, play_claim(claim, parse_lineup("solution:1-5")))
    assert card.truth is None
    assert "block 4 is free and held" in card.text


def test_the_run_of_a_card_can_be_changed() -> None:
    arrivals, config = setup_of("All work is lost")
    assert [request.request_id for request in arrivals] == ["A", "B"]
    assert config.num_gpu_blocks == 13
    with pytest.raises(
        ValueError, match="'One launch' is not a card that runs requests; choose from All work is lost, An"
    ):
        setup_of("One launch")


def test_without_the_learners_phases_the_cards_show_recorded_runs(tmp_path: Path) -> None:
    recorded: Deck = require_result(deck(Lab(5, "starter"), Predictions("08", tmp_path)))
    live: Deck = require_result(deck(Lab(5, "solution"), Predictions("08", tmp_path)))
    assert [card["truth"] for card in recorded.cards] == [card["truth"] for card in live.cards]


def test_answers_are_kept_by_title(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mini_vllm_labs.notebook.claims.decide.all_claims", lambda: [named("All work is lost")])
    lab, guess = Lab(5, "solution"), Predictions("08", tmp_path)
    widget: Deck = require_result(deck(lab, guess))
    widget.answers = {"All work is lost": "true"}
    kept = json.loads((tmp_path / "08.predictions.json").read_text(encoding="utf-8"))
    assert kept == {"All work is lost": {"Is the claim true?": "true"}}
    assert require_result(deck(lab, guess)).answers == {"All work is lost": "true"}
    widget.answers = {}
    assert json.loads((tmp_path / "08.predictions.json").read_text(encoding="utf-8")) == {}


def test_in_turn_and_shared_meet_where_the_variance_is_the_square_of_the_mean() -> None:
    below, above = (evidence.mean_times(sigma) for sigma in (0.78, 0.88))
    assert below["in turn"] < below["shared"]
    assert above["in turn"] > above["shared"]
    assert evidence.shared_time([(0, 2), (1, 1)]) == 3 + 2, "from 1 on each gets half of the speed"


def test_a_browser_shows_the_operations_that_torch_counts() -> None:
    assert evidence.counted_operations() == evidence.COUNTED


def test_the_shortest_goes_first_and_is_not_interrupted() -> None:
    jobs = [(0, 4), (1, 3), (2, 1), (20, 1)]
    assert evidence.shortest_first_time(jobs) == 4 + (8 - 1) + (5 - 2) + 1
    assert evidence.in_turn_time(jobs) == 4 + (7 - 1) + (8 - 2) + 1
