"""Predictions where no script runs: the questions, and the answers folded."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from course.views.prediction.question import Answer, Question, in_words


def listed(questions: Sequence[Mapping[str, Any]]) -> str:
    """Return the questions alone."""
    return "<ul>" + "".join(f"<li>{escape(question['text'])}</li>" for question in questions) + "</ul>"


def folded(text: str, attributes: str = "") -> str:
    """Return HTML that is read only when it is opened."""
    return f"<details{attributes}><summary>Open when you have answered</summary>{text}</details>"


def folded_answers(questions: Sequence[Mapping[str, Any]], truths: Sequence[Answer | None], opened: bool) -> str:
    """Return the questions with their answers behind a fold, which is a veil over the other outputs of the cell.

    There may be no answers: then it is the veil alone.
    """
    rows = (
        f"<li>{escape(question['text'])} <b>{escape(shown(question, truth))}</b></li>"
        for question, truth in zip(questions, truths, strict=False)
    )
    return folded(f"<ul>{''.join(rows)}</ul>", f' class="mvq-fold"{" open" if opened else ""}')


def folded_cards(cards: Sequence[Mapping[str, Any]]) -> str:
    """Return the claims with their questions, and behind a fold for each what the run shows."""
    return "".join(
        f"<h3>{place}. {escape(card['title'])}</h3><blockquote>{escape(card['claim'])}</blockquote>"
        f"<p>{escape(card['setup'])} {escape(card['question']['text'])}</p>"
        + folded(
            f"<p><b>{escape(shown(card['question'], card['truth']))}</b> {escape(card['why'])}</p>"
            f"<pre>{escape(card['text'])}</pre>"
        )
        for place, card in enumerate(cards, start=1)
    )


def shown(question: Mapping[str, Any], truth: Answer | None) -> str:
    """Return the true answer in words."""
    return "the run did not show it" if truth is None else in_words(Question(**question), truth)
