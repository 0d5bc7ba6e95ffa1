"""A card of a deck: a claim, a question about it, and what a run has shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from course.views.picture import Picture
from course.views.prediction.question import Answer, Question


@dataclass(frozen=True)
class Card:
    """A claim, the run that it is tested by in words, and a question about them.

    Behind the answer: `truth` (None if the run did not show it), `pictures`, `text` (the same as lines), and `why`.
    """

    title: str
    claim: str
    setup: str
    question: Question
    truth: Answer | None
    why: str
    pictures: Sequence[Picture]
    text: str

    def as_json(self) -> dict[str, Any]:
        """Return the card as its front end expects it."""
        return {
            "title": self.title,
            "claim": self.claim,
            "setup": self.setup,
            "question": self.question.as_json(),
            "truth": self.truth,
            "why": self.why,
            "pictures": [for_any_width(picture) for picture in self.pictures],
            "text": self.text,
        }


def for_any_width(picture: Picture) -> str:
    """Return a picture as HTML in which the style sheet shows the narrow drawing or the other one."""
    if picture.narrow is None:
        return str(picture.svg())
    drawn = f'<div class="mvw-narrow">{picture.narrow.svg()}</div><div class="mvw-roomy">{picture.svg()}</div>'
    return f'<div class="mvw-both">{drawn}</div>'
