"""Wrong answers return later at growing intervals; an unreadable file is rejected and left unchanged."""

import json
from pathlib import Path
from typing import Any

import pytest

from mini_vllm import EngineConfig
from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.fresh.jobs import WorkloadRun
from mini_vllm_labs.notebook import Lab, Notice, Predictions, Words, watch
from mini_vllm_labs.notebook.claims.decide import kept_deck
from mini_vllm_labs.notebook.recall import Missed, Recall, words_before
from mini_vllm_labs.pictures.prediction import Answer, Card, Question
from mini_vllm_labs.pictures.prediction.widgets import Deck
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

WHICH = Question("Which?", "which one", "choice", ("A", "B"))
MANY = Question("How many?", "how many", unit="tokens")
ASKED = {"steps": {"How many steps?": {"number": "num_steps", "unit": "steps"}, "And tokens?": {"number": "tokens 0"}}}


def missed(notebook: str = "01", title: str = "t", said: Answer = "A", truth: Answer = "B") -> Missed:
    return Missed(notebook, title, WHICH, said, truth, "A claim.", "A run.", "Because.")


def asked_in(recall: Recall, notebook: str) -> dict[str, Deck]:
    """Start a notebook and return its deck, keyed by card title."""
    shown = recall.start(notebook)
    return {card["title"]: shown for card in shown.cards} if isinstance(shown, Deck) else {}


def answer(decks: dict[str, Deck], said: str) -> None:
    for title, deck in decks.items():
        deck.answers = deck.answers | {title: said}


def test_a_wrong_answer_comes_back_one_two_and_four_notebooks_later(tmp_path: Path) -> None:
    recall = Recall(tmp_path)
    recall.note([missed(said="B")])
    assert list(tmp_path.iterdir()) == [], "what is right is not kept"
    recall.note([missed()])
    came = []
    for number in range(2, 14):
        decks = asked_in(recall, f"{number:02}")
        assert (decks == {}) == (asked_in(recall, f"{number:02}") == {}), "the same notebook again counts once"
        if decks:
            came.append(number)
            answer(decks, "B")
            assert asked_in(recall, f"{number:02}") == {}
    assert came == [2, 4, 8]


def test_what_is_wrong_again_comes_back_in_the_next_notebook_and_the_first_answer_counts(tmp_path: Path) -> None:
    recall = Recall(tmp_path)
    recall.note([missed()])
    answer(asked_in(recall, "02"), "B")
    assert asked_in(recall, "03") == {}
    decks = asked_in(recall, "04")
    for said in ("A", "B"):
        answer(decks, said)
    decks = asked_in(recall, "05")
    assert list(decks) == ["Recall: 01, t"]
    answer(decks, "B")
    assert asked_in(recall, "06") == {}
    assert list(asked_in(recall, "07")) == ["Recall: 01, t"], "the count of right answers began anew"


def test_at_most_three_come_back_one_of_a_title_and_none_of_the_same_notebook(tmp_path: Path) -> None:
    recall = Recall(tmp_path)
    recall.note([missed("01", title) for title in "abcd"])
    recall.note([Missed("01", "a", MANY, 3, 4), missed("02", "e")])
    decks = asked_in(recall, "02")
    assert len(decks) == 3
    assert not [title for title in decks if "02" in title], "its questions are in the notebook itself"
    answer(decks, "B")
    assert len(asked_in(recall, "02")) == 2, "what was not asked is still due"


def test_a_card_says_what_was_asked_and_what_was_said(tmp_path: Path) -> None:
    recall = Recall(tmp_path)
    recall.note([missed()])
    deck = asked_in(recall, "02")["Recall: 01, t"]
    assert deck.words() == "1. Recall: 01, t: A claim. A run. Which?"
    assert "In 01 you said A. Because." in deck.still()
    answer({"Recall: 01, t": deck}, "B")
    assert str(recall.start("02")).startswith("Nothing to recall")


def test_the_same_answer_changes_nothing_and_another_wrong_one_begins_anew(tmp_path: Path) -> None:
    recall = Recall(tmp_path)
    recall.note([missed()])
    answer(asked_in(recall, "02"), "B")
    kept = recall.path.read_text(encoding="utf-8")
    recall.note([missed()])
    assert json.loads(kept)["missed"] == json.loads(recall.path.read_text(encoding="utf-8"))["missed"]
    many = [Missed("01", "t", MANY, said, 4) for said in (3, 5)]
    for one in many:
        recall.note([one])
    assert [one.said for one in recall.read().missed if one.question == MANY] == [5]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "Expecting property name"),
        ("[]", "the file's version is None, but it must be 1"),
        ('{"version": 0}', "the file's version is 0, but it must be 1"),
        ('{"version": 1, "num_started": 1, "last": "01"}', "a part is missing or has the wrong type .'missed'"),
        ('{"version": 1, "num_started": 1, "last": "01", "missed": [{"notebook": "01"}]}', "a part is missing"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_and_stays(tmp_path: Path, content: str, problem: str) -> None:
    recall = Recall(tmp_path)
    recall.path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=problem):
        recall.read()
    shown = recall.start("02")
    assert isinstance(shown, Notice)
    assert "left as it is" in str(shown)
    recall.note([missed()])
    assert recall.path.read_text(encoding="utf-8") == content


def test_an_answer_that_the_question_does_not_have_is_refused(tmp_path: Path) -> None:
    recall = Recall(tmp_path)
    recall.note([missed()])
    kept = recall.path.read_text(encoding="utf-8")
    recall.path.write_text(kept.replace('"said": "A"', '"said": "C"'), encoding="utf-8")
    with pytest.raises(ValueError, match="is 'C', but the answer must be one of A, B"):
        recall.read()


@pytest.fixture(scope="module")
def run() -> WorkloadRun:
    requests = [TimedRequest(0, name, [ord(name)] * 8, max_tokens=4) for name in "ABC"]
    config = EngineConfig(max_num_seqs=4, max_num_batched_tokens=12, max_model_len=12, block_size=4, num_gpu_blocks=21)
    played = Lab(1, "solution").play(requests, config)
    assert isinstance(played, WorkloadRun)
    return played


@pytest.mark.parametrize("revealed_first", [True, False])
def test_a_wrong_prediction_is_noted_when_it_is_locked_and_its_run_is_known(
    tmp_path: Path, run: WorkloadRun, revealed_first: bool
) -> None:
    guess = Predictions("x", tmp_path, ASKED)
    widget = guess.ask("steps").ask()
    steps: list[Any] = [lambda: guess.reveal("steps", watch(run), run), lambda: setattr(widget, "answers", [99, 8])]
    for step in steps if revealed_first else reversed(steps):
        assert Recall(tmp_path).read().missed == []
        step()
    [one] = Recall(tmp_path).read().missed
    assert (one.said, one.truth, one.setup) == (99, guess.groups["steps"].truths[0], "")  # type: ignore[index]
    assert isinstance(guess.recall(), Words)
    shown = Predictions("y", tmp_path, {}).recall()
    assert isinstance(shown, Deck)
    assert shown.cards[0]["question"]["text"] == "How many steps?"


def test_a_wrong_claim_is_noted_and_so_is_one_that_was_kept(tmp_path: Path) -> None:
    card = Card("Title", "A claim.", "A run.", WHICH, "B", "Because.", "text")
    guess = Predictions("08", tmp_path)
    kept_deck([card], guess).answers = {"Title": "A"}
    assert list(asked_in(Recall(tmp_path), "09")) == ["Recall: 08, Title"]
    Recall(tmp_path).path.unlink()
    kept_deck([card], guess)
    assert list(asked_in(Recall(tmp_path), "09")) == ["Recall: 08, Title"]


def test_the_words_before_a_question_are_those_of_its_notebook(tmp_path: Path) -> None:
    words = words_before(CHECKOUT / "notebooks" / "01_scheduler_step.ipynb", "two at once")
    assert words == "Change one setting. Predict first. Only two requests may run at once (max_num_seqs=2)."
    assert words_before(tmp_path / "01_scheduler_step.ipynb", "two at once") == ""
