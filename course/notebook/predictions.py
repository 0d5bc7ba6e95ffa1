"""The predictions of a notebook: questions that lock before their run is shown, and the score; kept beside the file."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course.fresh.jobs import ChatRun, WorkloadRun
from course.notebook.notice import Notice
from course.notebook.run_facts import RunFacts
from course.views.prediction import Answer, Question, checked_answer
from mini_vllm.assembly.lineup import CHECKOUT

if TYPE_CHECKING:
    from course.views.prediction.widgets import Ask, Score

Truth = Callable[..., Answer | bool]


@dataclass(frozen=True)
class Asked:
    """A question, and the function that finds its true answer in the runs that `reveal` gets."""

    question: Question
    truth: Truth


class Prediction:
    """A group of questions. Its last expression in a cell shows them; `reveal` shows the run that answers them."""

    def __init__(self, title: str, asked: Sequence[Asked], kept: "Kept") -> None:
        self.title, self.asked, self.kept = title, asked, kept
        self.questions = [one.question for one in asked]
        self.truths: list[Answer | None] | None = None

    @property
    def answers(self) -> list[Answer]:
        """The answers given; empty while a question is open."""
        found = [self.kept.get(self.title, question) for question in self.questions]
        return [] if None in found else found  # type: ignore[return-value]

    def ask(self) -> "Ask":
        from course.views.prediction.widgets import Ask

        widget = Ask(self.group, self.questions, self.answers)
        widget.observe(lambda change: self._keep(change["new"]), names="answers")
        return widget

    def _ipython_display_(self) -> None:
        self.ask()._ipython_display_()

    def reveal(self, shown: Any, *runs: Any) -> "Revealed | Notice":
        """Return what is `shown` behind a veil until the questions are locked, and then with the verdicts.

        The questions' functions get the `runs`. A `Notice` among them, or in place of what is shown, is returned.
        """
        for each in (shown, *runs):
            if isinstance(each, Notice):
                return each
        facts = [RunFacts(run) if isinstance(run, WorkloadRun | ChatRun) else run for run in runs]
        self.truths = [true_answer(one.question, one.truth, facts) for one in self.asked]
        return Revealed(self, shown, self.truths)

    def also(self, shown: Any) -> "Revealed | Notice":
        """Return one more thing behind the veil, without verdicts."""
        return shown if isinstance(shown, Notice) else Revealed(self, shown)

    def _keep(self, answers: Sequence[Answer]) -> None:
        self.kept.put(self.title, dict(zip(self.questions, answers, strict=True)) if answers else {})

    @property
    def group(self) -> str:
        """The name under which the widgets of a page know these questions."""
        return f"{self.kept.path.name}: {self.title}"


@dataclass(frozen=True)
class Revealed:
    """What a cell shows behind the veil of a prediction, and the verdicts if there are `truths`."""

    prediction: Prediction
    shown: Any
    truths: Sequence[Answer | None] = ()

    def _ipython_display_(self) -> None:
        from IPython.display import display

        from course.views.prediction.widgets import Reveal

        guess = self.prediction
        display(Reveal(guess.group, guess.questions, guess.answers, self.truths))  # type: ignore[no-untyped-call]
        display(self.shown)  # type: ignore[no-untyped-call]


class Predictions:
    """The predictions of one notebook. What is answered is kept in `NAME.predictions.json` beside it."""

    def __init__(self, notebook: str, folder: Path = CHECKOUT / "notebooks") -> None:
        self.kept = Kept(folder / f"{notebook}.predictions.json")
        self.groups: dict[str, Prediction] = {}

    def ask(self, title: str, *asked: Asked) -> Prediction:
        """Return questions that are answered and locked together; a cell that ends in them shows them.

        The `title` is their name in the file: a notebook uses each once.
        """
        self.groups[title] = Prediction(title, asked, self.kept)
        return self.groups[title]

    def score(self) -> "Score":
        """Return how many answers were right, by subject."""
        from course.views.prediction.widgets import Score

        return Score([as_json(prediction) for prediction in self.groups.values()])

    @staticmethod
    def number(text: str, truth: Truth, unit: str = "tokens", factor: float = 1) -> Asked:
        """Ask how many. An answer is right within `factor` of the true one."""
        return Asked(Question(text, "how many", unit=unit, factor=factor), truth)

    @staticmethod
    def step(text: str, truth: Truth) -> Asked:
        """Ask in which step."""
        return Asked(Question(text, "in which step"), truth)

    @staticmethod
    def choice(text: str, options: Sequence[str], truth: Truth) -> Asked:
        """Ask which one."""
        return Asked(Question(text, "which one", "choice", tuple(options)), truth)

    @staticmethod
    def several(text: str, options: Sequence[str], truth: Truth) -> Asked:
        """Ask which ones, such as the requests of a step."""
        return Asked(Question(text, "which ones", "several", tuple(options)), truth)

    @staticmethod
    def claim(text: str, holds: Callable[..., bool]) -> Asked:
        """Ask whether a claim is true."""
        return Asked(Question(text, "true or false", "choice", ("true", "false")), holds)


class Kept:
    """Answers in a small file, by title and by the question's text; a changed question has no answer."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, title: str, question: Question) -> Answer | None:
        """Return the answer to a question, None if there is none."""
        try:
            return checked_answer(question, self.read().get(title, {}).get(question.text))
        except ValueError:
            return None

    def put(self, title: str, answers: Mapping[Question, Answer]) -> None:
        """Replace the answers under a title; without answers, forget it."""
        kept = self.read() | {title: {question.text: answer for question, answer in answers.items()}}
        kept = {title: said for title, said in kept.items() if said}
        self.path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def read(self) -> dict[str, dict[str, Any]]:
        """Return everything kept; a file that cannot be read counts as empty."""
        try:
            read = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        kept = read.items() if isinstance(read, dict) else []
        return {title: said for title, said in kept if isinstance(said, dict)}


def true_answer(question: Question, truth: Truth, runs: Sequence[Any]) -> Answer | None:
    """Return the true answer, or None if the runs do not show it."""
    try:
        answer = truth(*runs)
        return checked_answer(question, str(answer).lower() if isinstance(answer, bool) else answer)
    except (LookupError, ZeroDivisionError, ValueError):
        return None


def as_json(prediction: Prediction) -> dict[str, Any]:
    """Return a group as the score's front end expects it."""
    return {
        "group": prediction.group,
        "questions": [question.as_json() for question in prediction.questions],
        "answers": prediction.answers,
        "truths": prediction.truths,
    }
