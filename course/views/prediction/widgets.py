"""The widgets of a prediction, one front end for all. Each is also a page of its own where no kernel runs."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any
from uuid import uuid4

import anywidget
import traitlets
from IPython.display import display

from course.views.alone import alone
from course.views.picture import read_asset
from course.views.prediction.question import Answer, Card, Question, in_words

FRONT_END = ("prediction/questions.js", "prediction/deck.js", "prediction/prediction.js")
CSS = "controls.css prediction/prediction.css prediction/fold.css"


class PredictionWidget(anywidget.AnyWidget):
    """A widget with a second output: itself without a kernel, for an exported page; there a script brings it to life.

    `still` is shown where not even scripts run; it folds what must not be seen yet.
    """

    _esm = "".join(map(read_asset, FRONT_END))
    _css = "".join(map(read_asset, CSS.split()))
    role = traitlets.Unicode().tag(sync=True)
    place = traitlets.Unicode().tag(sync=True)
    shared: Sequence[str] = ()

    @traitlets.default("place")
    def _new_place(self) -> str:
        return uuid4().hex

    def still(self) -> str:
        """Return the HTML for where no script runs."""
        return ""

    def words(self) -> str:
        """Return the widget as plain text."""
        return ""

    def page(self) -> str:
        """Return the widget as HTML that works without a kernel."""
        state = {"role": self.role, "place": ""} | {name: getattr(self, name) for name in self.shared}
        style = f"<style>{read_asset('prediction/fold.css')}</style>"
        return f'<div data-place="{self.place}">{style}{self.still()}{alone(state, self._esm, CSS)}</div>'

    def _ipython_display_(self) -> None:
        """Show the widget and its page as two outputs of the cell."""
        bundle = self._repr_mimebundle_()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        display({**data, "text/plain": ""}, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]
        display({"text/html": self.page(), "text/plain": self.words()}, raw=True)  # type: ignore[no-untyped-call]


class Ask(PredictionWidget):
    """The questions of one group; `answers` is empty until they are locked."""

    group = traitlets.Unicode().tag(sync=True)
    questions: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    answers: traitlets.List[Answer] = traitlets.List().tag(sync=True)
    shared = ("group", "questions", "answers")

    def __init__(self, group: str, questions: Sequence[Question], answers: Sequence[Answer]) -> None:
        super().__init__(
            role="ask", group=group, questions=[each.as_json() for each in questions], answers=list(answers)
        )

    def still(self) -> str:
        return listed(self.questions)

    def words(self) -> str:
        return "\n".join(question["text"] for question in self.questions)


class Reveal(PredictionWidget):
    """The veil over the other outputs of its cell, and the verdicts once the group's questions are answered."""

    group = traitlets.Unicode().tag(sync=True)
    questions: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    answers: traitlets.List[Answer] = traitlets.List().tag(sync=True)
    truths: traitlets.List[Answer | None] = traitlets.List().tag(sync=True)
    shared = ("group", "questions", "answers", "truths")

    def __init__(
        self, group: str, questions: Sequence[Question], answers: Sequence[Answer], truths: Sequence[Answer | None]
    ) -> None:
        asked = [each.as_json() for each in questions]
        super().__init__(role="reveal", group=group, questions=asked, answers=list(answers), truths=list(truths))

    def still(self) -> str:
        return folded_answers(self.questions, self.truths, opened=bool(self.answers))


class Score(PredictionWidget):
    """How many answers were right, by subject. `groups` have `group`, `questions`, `answers`, `truths`."""

    groups: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    shared = ("groups",)

    def __init__(self, groups: Sequence[dict[str, Any]]) -> None:
        super().__init__(role="score", groups=list(groups))

    def still(self) -> str:
        return "<p>Your score is counted where scripts run.</p>"


class Deck(PredictionWidget):
    """Cards, one at a time; `answers` has what was said to each, by its title."""

    cards: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    answers = traitlets.Dict().tag(sync=True)
    shared = ("cards", "answers")

    def __init__(self, cards: Sequence[Card], answers: dict[str, Answer]) -> None:
        super().__init__(role="deck", cards=[card.as_json() for card in cards], answers=answers)

    def still(self) -> str:
        return folded_cards(self.cards)

    def words(self) -> str:
        return "\n".join(f"{place}. {card['title']}: {card['claim']}" for place, card in enumerate(self.cards, 1))


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
