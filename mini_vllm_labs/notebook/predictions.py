"""Manages a notebook's predictions: questions that are locked before their run is shown, and the score."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.notebook.notice import Notice, Words
from mini_vllm_labs.notebook.recall import Missed, Recall, words_before
from mini_vllm_labs.notebook.truths import facts_of, true_answer
from mini_vllm_labs.pictures.prediction import Answer, Question, checked_answer

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.prediction.widgets import Ask, Deck, Score

SUBJECTS = {
    "number": "how many",
    "step": "in which step",
    "choice": "which one",
    "several": "which ones",
    "claim": "true or false",
}
ANSWERS = ".predictions.json"
QUESTIONS = Path(__file__).parent / "questions"
"""A file for each notebook: groups of questions, each with its kind and the line that finds its true answer."""


def question_of(text: str, asked: Mapping[str, Any]) -> tuple[Question, str]:
    """Return a question and the expression that finds its true answer (see `truths.fact`).

    `asked` maps one of `SUBJECTS` to that expression, and optionally contains `of` (options), `unit` and `factor`.
    """
    (kind,) = asked.keys() & SUBJECTS.keys()
    options = tuple(asked.get("of", ("true", "false") if kind == "claim" else ()))
    unit, factor = asked.get("unit", "tokens" if kind == "number" else ""), asked.get("factor", 1)
    shape: Any = {"step": "number", "claim": "choice"}.get(kind, kind)
    return Question(text, SUBJECTS[kind], shape, options, unit, factor), asked[kind]


class Prediction:
    """A group of questions. A cell shows the questions if the group is its last expression; `reveal` shows the run that
    answers them."""

    def __init__(self, title: str, asked: Mapping[str, Mapping[str, Any]], kept: "Kept") -> None:
        self.title, self.kept, self.recall = title, kept, Recall(kept.path.parent)
        self.asked = [question_of(text, one) for text, one in asked.items()]
        self.questions = [question for question, _ in self.asked]
        self.truths: list[Answer | None] | None = None

    @property
    def answers(self) -> list[Answer]:
        """The answers given, or an empty list if any question is unanswered."""
        found = [self.kept.get(self.title, question) for question in self.questions]
        return [] if None in found else found  # type: ignore[return-value]

    def ask(self) -> "Ask":
        from mini_vllm_labs.pictures.prediction.widgets import Ask

        widget = Ask(self.group, self.questions, self.answers)
        widget.observe(lambda change: self._keep(change["new"]), names="answers")
        return widget

    def _ipython_display_(self) -> None:
        self.ask()._ipython_display_()

    def reveal(self, shown: Any, *runs: Any) -> "Revealed | Notice":
        """Return `shown`, veiled until the questions are locked and then displayed next to the verdicts.

        The questions are about the `runs`. If `shown` or a run is a `Notice`, the notice is returned instead.
        """
        for each in (shown, *runs):
            if isinstance(each, Notice):
                return each
        known = [one for run in runs for one in facts_of(run)]
        self.truths = [true_answer(question, line, known) for question, line in self.asked]
        self._note()
        return Revealed(self, shown, self.truths)

    def also(self, shown: Any) -> "Revealed | Notice":
        """Return `shown`, veiled as another output without verdicts."""
        return shown if isinstance(shown, Notice) else Revealed(self, shown)

    def _keep(self, answers: Sequence[Answer]) -> None:
        self.kept.put(self.title, dict(zip(self.questions, answers, strict=True)) if answers else {})
        self._note()

    def _note(self) -> None:
        """Save wrong answers for later notebooks."""
        notebook = self.kept.path.name.removesuffix(ANSWERS)
        words = words_before(self.kept.path.with_name(f"{notebook}.ipynb"), self.title)
        pairs = zip(self.questions, self.answers, self.truths or (), strict=False)
        self.recall.note(
            Missed(notebook, self.title, question, said, truth, words, " ".join(self._before(question)))
            for question, said, truth in pairs
            if truth is not None
        )

    def _before(self, question: Question) -> list[str]:
        """Return the questions that precede a question, because one like "And its third?" makes no sense alone."""
        texts = [each.text for each in self.questions[: self.questions.index(question)]]
        return ["Asked before it:", *texts] if texts else []

    @property
    def group(self) -> str:
        """The name by which a page's widgets identify these questions."""
        return f"{self.kept.path.name}: {self.title}"


@dataclass(frozen=True)
class Revealed:
    """A cell's output, veiled until a prediction is made, with the verdicts if there are `truths`."""

    prediction: Prediction
    shown: Any
    truths: Sequence[Answer | None] = ()

    def _ipython_display_(self) -> None:
        from IPython.display import display

        from mini_vllm_labs.pictures.prediction.widgets import Reveal

        guess = self.prediction
        film = getattr(self.shown, "film", {})  # a player already has a film
        widget = Reveal(guess.group, guess.questions, guess.answers, self.truths, film)
        display(widget)  # type: ignore[no-untyped-call]
        display(self.shown)  # type: ignore[no-untyped-call]


class Predictions:
    """The predictions of one notebook. Answers are saved in `NAME.predictions.json` next to the notebook.

    `questions` maps titles to groups, which map texts to questions (see `question_of`); by default, it is the
    notebook's file in `questions/`.
    """

    def __init__(
        self,
        notebook: str,
        folder: Path = CHECKOUT / "notebooks",
        questions: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    ) -> None:
        self.notebook, self.kept, self.missed = notebook, Kept(folder / f"{notebook}{ANSWERS}"), Recall(folder)
        path = QUESTIONS / f"{notebook}.toml"
        if questions is None:
            questions = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.groups = {title: Prediction(title, asked, self.kept) for title, asked in questions.items()}

    def ask(self, title: str) -> Prediction:
        """Return a group's questions, which are answered and locked together. Raises `ValueError` if the group is
        unknown."""
        if title not in self.groups:
            raise ValueError(f"unknown question set {title!r}; choose from {', '.join(self.groups) or 'none'}")
        return self.groups[title]

    def reveal(self, title: str, shown: Any, *runs: Any) -> "Revealed | Notice":
        """Return `shown`, veiled by a group of questions about the `runs`, with the verdicts on them."""
        return self.ask(title).reveal(shown, *runs)

    def also(self, title: str, shown: Any) -> "Revealed | Notice":
        """Return an additional output that is veiled by a group of questions."""
        return self.ask(title).also(shown)

    def recall(self) -> "Deck | Notice | Words":
        """Return at most three questions from other notebooks that were answered wrongly and are due again."""
        return self.missed.start(self.notebook)

    def score(self) -> "Score":
        """Return the number of correct answers for each subject."""
        from mini_vllm_labs.pictures.prediction.widgets import Score

        return Score([as_json(prediction) for prediction in self.groups.values()])


class Kept:
    """Stores answers in a small file, keyed by title and question text, so a changed question has no answer."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, title: str, question: Question) -> Answer | None:
        """Return the answer to a question, or None."""
        try:
            return checked_answer(question, self.read().get(title, {}).get(question.text))
        except ValueError:
            return None

    def put(self, title: str, answers: Mapping[Question, Answer]) -> None:
        """Replace the answers stored under a title; if there are none, delete the title."""
        kept = self.read() | {title: {question.text: answer for question, answer in answers.items()}}
        kept = {title: said for title, said in kept.items() if said}
        self.path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def read(self) -> dict[str, dict[str, Any]]:
        """Return all saved answers; a file that cannot be read counts as empty."""
        try:
            read = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        kept = read.items() if isinstance(read, dict) else []
        return {title: said for title, said in kept if isinstance(said, dict)}


def as_json(prediction: Prediction) -> dict[str, Any]:
    """Encode a group for the front end that shows the score."""
    return {
        "group": prediction.group,
        "questions": [question.as_json() for question in prediction.questions],
        "answers": prediction.answers,
        "truths": prediction.truths,
    }
