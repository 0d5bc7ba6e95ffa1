"""Every question of every notebook has a cell whose output answers it; the pairs are in `questions.yaml`."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from course.notebook.predictions import Revealed
from course.views.prediction.question import in_words
from course.views.widgets import Player
from tests.notebook.cells import NOTEBOOKS, run_cells
from tests.notebook.files import load, read

QUESTIONS, MEASURED = load("questions.yaml"), "measured"

DECK = "08_spot_the_bug"
"""Its questions are on cards, each with its own run: `test_claims.py`."""


def sources(name: str) -> list[str]:
    path = next(path for path in NOTEBOOKS if path.stem == name)
    return [cell.source for cell in read(path).cells if cell.cell_type == "code"]


def seen(shown: Any) -> str:
    """Return what a cell shows as text: of a film, the text of all of its steps."""
    if isinstance(shown, Player):
        return "\n".join(picture.text_alternative for picture in shown.pictures.pictures)
    bundle = shown._repr_mimebundle_()
    return str((bundle[0] if isinstance(bundle, tuple) else bundle)["text/plain"])


def asked_in(names: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each group of predictions with its questions and their true answers in words."""
    for name, group in names.items():
        if any(group is each for each in names["guess"].groups.values()):
            for question, truth in zip(group.questions, group.truths, strict=True):
                assert truth is not None, question.text
                yield name, question.text, in_words(question, truth)


def test_every_notebook_is_listed() -> None:
    assert [path.stem for path in NOTEBOOKS if path.stem != DECK] == list(QUESTIONS)


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_output_of_the_named_cell_answers_the_question(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = next(path for path in NOTEBOOKS if path.stem == name)
    names, shown = run_cells(path, "solution", monkeypatch)
    listed: dict[tuple[str, str], str] = {}
    for begins, pairs in QUESTIONS[name].items():
        found = [value for source, value in zip(sources(name), shown, strict=True) if f"\n{begins}" in f"\n{source}"]
        assert len(found) == 1, begins
        assert isinstance(found[0], Revealed), begins
        text = seen(found[0].shown)
        for question, (answer, pattern) in pairs.items():
            assert re.search(pattern, text), f"{question} {answer}: no {pattern!r} in the output of {begins}\n{text}"
            listed[begins.partition(".")[0], question] = answer
    true = {(group, question): answer for group, question, answer in asked_in(names)}
    assert {key: listed[key] for key in listed if listed[key] != MEASURED} == {
        key: answer for key, answer in true.items() if listed.get(key) != MEASURED
    }
