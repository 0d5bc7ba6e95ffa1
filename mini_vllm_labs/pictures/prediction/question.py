"""Defines a question with a single right answer, checks answers, and defines the card that contains a question."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.picture import Picture

Answer = float | str | list[str]
Kind = Literal["number", "choice", "several"]


@dataclass(frozen=True)
class Question:
    """A question whose answer is a number, one of the `options`, or several options.

    `unit` is shown after a number. `subject` is the heading under which the score counts the question. A number is
    right if it is within `factor` of the true number: 1 for counts, 2 for "about how many times". Raises `ValueError`
    for a choice of fewer than two options or a factor below 1.
    """

    text: str
    subject: str
    kind: Kind = "number"
    options: Sequence[str] = ()
    unit: str = ""
    factor: float = 1

    def __post_init__(self) -> None:
        if self.kind != "number" and len(self.options) < 2:
            raise ValueError(
                f"{self.text!r} has {len(self.options)} options, but a multiple-choice question needs at least 2"
            )
        if self.factor < 1:
            raise ValueError(f"factor is {self.factor}, but it must be at least 1")

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"options": list(self.options)}


def checked_answer(question: Question, value: Any) -> Answer:
    """Return the value if it is a possible answer. Raises a `ValueError` that lists the possible answers."""
    if question.kind == "number":
        fits, wanted = isinstance(value, (int, float)) and not isinstance(value, bool), "a number"
    elif question.kind == "choice":
        fits, wanted = value in question.options, f"one of {', '.join(question.options)}"
    else:
        fits = isinstance(value, list) and bool(value) and all(each in question.options for each in value)
        wanted = f"a list with some of {', '.join(question.options)}"
    if not fits:
        raise ValueError(f"the answer to {question.text!r} is {value!r}, but the answer must be {wanted}")
    answer: Answer = value
    return answer


def is_right(question: Question, said: Answer, truth: Answer) -> bool:
    """Return whether an answer is right, using the same rule as `isRight` in `questions.js`."""
    if isinstance(said, list) and isinstance(truth, list):
        return sorted(said) == sorted(truth)
    if said == truth or isinstance(said, str | list) or isinstance(truth, str | list):
        return said == truth
    return said * truth > 0 and max(said / truth, truth / said) <= question.factor


def in_words(question: Question, answer: Answer) -> str:
    if isinstance(answer, list):
        return ", ".join(answer)
    if isinstance(answer, str):
        return answer
    number = f"{answer:,.3g}" if answer != int(answer) else f"{int(answer):,}"
    return f"{number} {question.unit.removesuffix('s') if answer == 1 else question.unit}".strip()


@dataclass(frozen=True)
class Card:
    """A claim, a description of the run that tests it (`setup`), and a question about both.

    The answer reveals `truth` (None if the run did not show it), `why`, and either `films` (each with its name and
    opening step) or `pictures`, also as `text`.
    """

    title: str
    claim: str
    setup: str
    question: Question
    truth: Answer | None
    why: str
    text: str
    pictures: Sequence[Picture] = ()
    films: Sequence[tuple[str, Film, int]] = ()

    def as_json(self) -> dict[str, Any]:
        pictures = [str(picture.svg()) for picture in self.pictures]
        films = [{"name": name, "film": film.encode(), "step": step} for name, film, step in self.films]
        return vars(self) | {"question": self.question.as_json(), "pictures": pictures, "films": films}
