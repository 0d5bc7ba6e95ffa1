"""Sixty cards: each answer equals its check, no number is written by hand, and Anki can read them."""

import csv
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mini_vllm_labs.cli.main import app
from mini_vllm_labs.flashcards import Flashcard, all_cards, anki
from mini_vllm_labs.flashcards.cards import FIGURES, figure_of, written_cards
from mini_vllm_labs.notebook.recall import Missed, Recall
from mini_vllm_labs.pictures.prediction import Question
from tests.handouts.record_cards import found

WRITTEN = written_cards()
FOUND = json.loads(FIGURES.read_text(encoding="utf-8"))
NUMBER = re.compile(r"(?<![A-Za-z\d.,-])\d+(?:\.\d+)?")
IN_WORDS = re.compile(r"\b(two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|sixteen|twenty|hundred)\b")
BACKWARDS = re.compile(r"^(And|Now|Then|The same)\b")


@pytest.mark.parametrize(("key", "card"), WRITTEN, ids=[figure_of(key, card)[:40] for key, card in WRITTEN])
def test_an_answer_is_what_its_check_finds(key: str, card: dict[str, str]) -> None:
    assert found(key, card["check"]) == FOUND[figure_of(key, card)], "python -m tests.handouts.record_cards"
    assert "{it" in card["answer"]
    words = re.sub(r"\{.*?\}", "", card["answer"])
    assert not re.search(r"(?<![A-Z\d])\d", words), "a number of an answer comes from its check"
    assert not IN_WORDS.search(words)
    assert set(NUMBER.findall(card["question"])) <= set(re.findall(r"\d+(?:\.\d+)?", card["check"]))
    assert not BACKWARDS.search(card["question"]), "cards are shuffled"


def test_there_are_sixty_of_all_phases_and_of_serving() -> None:
    assert len(WRITTEN) == len(FOUND) == len({card["question"] for _, card in WRITTEN}) == 60
    assert list(dict.fromkeys(key for key, _ in WRITTEN)) == [*(f"phase{n}" for n in range(1, 13)), "serving"]
    assert min([key for key, _ in WRITTEN].count(f"phase{n}") for n in range(1, 13)) == 4


def test_anki_gets_a_line_of_three_fields_for_each_card(tmp_path: Path) -> None:
    path = tmp_path / "cards.txt"
    done = CliRunner().invoke(app, ["cards", "--anki", str(path)])
    assert done.exit_code == 0, done.output
    *header, lines = path.read_text(encoding="utf-8").split("\n", 3)
    assert header == ["#separator:tab", "#html:true", "#tags column:3"]
    rows = list(csv.reader(lines.splitlines(), delimiter="\t"))  # Anki's importer handles quotes like a CSV reader
    assert len(rows) == 60
    assert {len(row) for row in rows} == {3}
    assert rows[0][1:] == [all_cards()[0].answer, "mini-vllm phase-1-scheduler-step"]
    again = CliRunner().invoke(app, ["cards", "--anki", str(path)])
    assert again.exit_code != 0, "what is there is not overwritten"


def test_a_field_is_html_without_tabs_and_lines() -> None:
    assert anki([Flashcard("a b", 'x\t<"y">\nz', "1 & 2")]).splitlines()[3] == (
        "x &lt;&quot;y&quot;&gt;<br>z\t1 &amp; 2\tmini-vllm a-b"
    )


def test_the_terminal_prints_the_cards_and_those_that_are_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = CliRunner().invoke(app, ["cards"]).output
    assert "\nphase 12 sliding windows\n" in shown
    assert "A computes 8, B 2, C none" in shown
    recall = Recall(tmp_path)
    monkeypatch.setattr("mini_vllm_labs.notebook.recall.Recall", lambda: recall)
    assert "Nothing is due." in CliRunner().invoke(app, ["cards", "--due"]).output
    recall.note([Missed("01", "t", Question("Which?", "s", "choice", ("A", "B")), "A", "B", "A claim.", "", "Why.")])
    kept = recall.path.read_text(encoding="utf-8")
    assert "\n01\n\nA claim. Which? (A / B)\n  B. Why.\n" in CliRunner().invoke(app, ["cards", "--due"]).output
    assert recall.path.read_text(encoding="utf-8") == kept, "to look is no answer"
    recall.path.write_text("{", encoding="utf-8")
    refused = CliRunner().invoke(app, ["cards", "--due"])
    assert refused.exit_code != 0
    assert "left as it is" in " ".join(refused.output.split())
