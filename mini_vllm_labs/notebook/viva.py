"""Turns a practice viva into a deck of cards."""

from typing import TYPE_CHECKING

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.notebook.claims.decide import kept_deck
from mini_vllm_labs.notebook.notice import Notice
from mini_vllm_labs.notebook.predictions import Predictions
from mini_vllm_labs.pictures.prediction import Card, Question
from mini_vllm_labs.viva.files import read_files
from mini_vllm_labs.viva.make_sheet import make_sheet
from mini_vllm_labs.viva.sheet import Sheet, VivaQuestion, options_of

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.prediction.widgets import Deck


def viva_deck(guess: Predictions, seed: int = 0) -> "Deck | Notice":
    """Return a seed's eight questions about the learner's saved files as cards that save the answers."""
    try:
        sheet = make_sheet(read_files(CHECKOUT), seed)
    except ValueError as error:
        return Notice("No viva", str(error))
    return kept_deck([card_of(sheet, number, one) for number, one in enumerate(sheet.questions, start=1)], guess)


def card_of(sheet: Sheet, number: int, question: VivaQuestion) -> Card:
    """Build a question's card, whose answer shows the run that proves it."""
    numbers = tuple(str(place) for place in range(1, len(question.options) + 1))
    # Answers are stored under the question's text, because they depend on the seed.
    asked = Question(
        f"Your answer (seed {sheet.seed}, question {number})?",
        question.kind,
        "choice" if numbers else "number",
        numbers,
    )
    return Card(
        f"Question {number}",
        "\n".join([question.text, *options_of(question)]),
        "\n".join(sheet.preface()),
        asked,
        str(question.right) if numbers else question.right,
        f"The answer {question.right} was computed by running your files.",
        "\n".join(question.shown),
    )
