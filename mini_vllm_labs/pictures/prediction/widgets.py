"""Defines the widgets of a prediction, which share one front end and also work without a kernel."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import traitlets

from mini_vllm_labs.pictures.alone import WITH_LINES, alone
from mini_vllm_labs.pictures.picture import read_asset
from mini_vllm_labs.pictures.prediction.question import Answer, Card, Question, in_words
from mini_vllm_labs.pictures.widgets import SavedWidget

FRONT_END = ("prediction/questions.js", "prediction/deck.js", "prediction/prediction.js")
CSS = "controls.css prediction/prediction.css prediction/fold.css"


class PredictionWidget(SavedWidget):
    """A widget with a second output for exported pages, which a script runs without a kernel.

    If scripts do not run either, `still` is shown, with everything that must stay hidden collapsed.
    """

    _esm = "".join(map(read_asset, FRONT_END))
    _css = "".join(map(read_asset, CSS.split()))
    role = traitlets.Unicode().tag(sync=True)
    shared: Sequence[str] = ()

    def still(self) -> str:
        return ""

    def words(self) -> str:
        return ""

    def page(self) -> str:
        """Return the widget as HTML that works without a kernel."""
        state = {"role": self.role, "place": ""} | {name: getattr(self, name) for name in self.shared}
        style = f"<style>{read_asset('prediction/fold.css')}</style>"
        return f'<div data-place="{self.place}">{style}{self.still()}{alone(state, self._esm, CSS)}</div>'

    def second_output(self) -> dict[str, Any]:
        return {"text/html": self.page(), "text/plain": self.words()}


class Ask(PredictionWidget):
    """The questions of one group; `answers` is empty until the answers are locked."""

    group = traitlets.Unicode().tag(sync=True)
    questions: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    answers: traitlets.List[Answer] = traitlets.List().tag(sync=True)
    shared: Sequence[str] = ("group", "questions", "answers")

    def __init__(
        self, group: str, questions: Sequence[Question], answers: Sequence[Answer], role: str = "ask", **traits: Any
    ) -> None:
        asked = [each.as_json() for each in questions]
        super().__init__(role=role, group=group, questions=asked, answers=list(answers), **traits)

    def still(self) -> str:
        return "<ul>" + "".join(f"<li>{escape(question['text'])}</li>" for question in self.questions) + "</ul>"

    def words(self) -> str:
        return "\n".join(question["text"] for question in self.questions)


class Reveal(Ask):
    """Veils the other outputs of its cell until the group's questions are answered, then shows the verdicts.

    A verdict also links to the parts of the film in the player below that concern its question; `film` is that film.
    """

    truths: traitlets.List[Answer | None] = traitlets.List().tag(sync=True)
    film = traitlets.Dict().tag(sync=True)
    shared = ("group", "questions", "answers", "truths", "film")

    def __init__(
        self,
        group: str,
        questions: Sequence[Question],
        answers: Sequence[Answer],
        truths: Sequence[Answer | None],
        film: Mapping[str, Any],
    ) -> None:
        known = {"follow": film.get("follow", []), "word": film.get("word", ""), "length": len(film.get("frames", ()))}
        super().__init__(group, questions, answers, role="reveal", truths=list(truths), film=known)

    def still(self) -> str:
        """Return the questions with their answers collapsed; if there are none, return only the veil."""
        rows = (
            f"<li>{escape(question['text'])} <b>{escape(shown(question, truth))}</b></li>"
            # without the right answers, the widget draws only a veil
            for question, truth in zip(self.questions, self.truths, strict=False)
        )
        return folded(f"<ul>{''.join(rows)}</ul>", f' class="mvq-fold"{" open" if self.answers else ""}')

    def words(self) -> str:
        return ""


class Score(PredictionWidget):
    """The number of right answers for each subject. Each of the `groups` has `group`, `questions`, `answers` and
    `truths`."""

    groups: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    shared = ("groups",)

    def __init__(self, groups: Sequence[dict[str, Any]]) -> None:
        super().__init__(role="score", groups=list(groups))

    def still(self) -> str:
        return "<p>Your score is counted where scripts run.</p>"


class Deck(PredictionWidget):
    """Shows cards one at a time; `answers` maps each card's title to the learner's answer."""

    # The player is a separate module because it and this module both define `render`; a card with films imports it.
    _esm = PredictionWidget._esm + f"const PLAYER = {json.dumps(WITH_LINES + read_asset('alone.js'))};"
    cards: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    answers = traitlets.Dict().tag(sync=True)
    shared = ("cards", "answers")

    def __init__(self, cards: Sequence[Card], answers: dict[str, Answer]) -> None:
        super().__init__(role="deck", cards=[card.as_json() for card in cards], answers=answers)

    def still(self) -> str:
        """Return the claims and their questions, with the results of their runs collapsed."""
        return "".join(
            f"<h3>{place}. {escape(card['title'])}</h3><blockquote>{escape(card['claim'])}</blockquote>"
            f"<p>{escape(card['setup'])} {escape(card['question']['text'])}</p>"
            + folded(
                f"<p><b>{escape(shown(card['question'], card['truth']))}</b> {escape(card['why'])}</p>"
                f"<pre>{escape(card['text'])}</pre>"
            )
            for place, card in enumerate(self.cards, start=1)
        )

    def words(self) -> str:
        return "\n".join(
            " ".join(
                filter(None, [f"{place}. {card['title']}:", card["claim"], card["setup"], card["question"]["text"]])
            )
            for place, card in enumerate(self.cards, 1)
        )


def folded(text: str, attributes: str = "") -> str:
    return f"<details{attributes}><summary>Open when you have answered</summary>{text}</details>"


def shown(question: Mapping[str, Any], truth: Answer | None) -> str:
    return "the run did not show it" if truth is None else in_words(Question(**question), truth)
