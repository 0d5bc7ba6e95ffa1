"""A viva's sheet: eight questions drawn with a seed, the right answers, the answers given, and the times."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

VERSION = 1


@dataclass(frozen=True)
class VivaQuestion:
    """A question with its right answer: a whole number, or the position (from 1) of one of the `options`.

    `sameness` identifies what a guesser would have to know; it is equal for candidates with the same right answer.
    `shown` contains the steps of the run that determines the answer.
    """

    kind: str
    text: str
    right: int
    sameness: str
    shown: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass
class Sheet:
    """The questions about some files, identified by `digests`, and the answers so far, with the `seconds` that each
    took."""

    seed: int
    requests: int
    setup: list[str]
    digests: dict[str, str]
    run: list[str]
    questions: list[VivaQuestion]
    given: list[int | None] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def points(self) -> int:
        return sum(question.right == given for question, given in zip(self.questions, self.given, strict=False))

    def as_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self), "points": self.points}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Sheet":
        """Read a sheet. Raises `ValueError` if the text is not a sheet."""
        try:
            values: dict[str, Any] = json.loads(text)
            if values.pop("version") != VERSION:
                raise ValueError("the file was written by a different version")
            values.pop("points")
            asked = [
                VivaQuestion(**one | {name: tuple(one[name]) for name in ("options", "shown")})
                for one in values.pop("questions")
            ]
            return cls(questions=asked, **values)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a sheet from `mini-vllm viva`: {error}") from None

    def is_about_the_same(self, other: "Sheet") -> bool:
        """Return whether both sheets have the same files, run, questions and right answers."""
        mine, theirs = (asdict(one) | {"given": [], "seconds": []} for one in (self, other))
        return mine == theirs

    def as_text(self) -> str:
        """Return a page for the teacher as Markdown."""
        head = [f"# Viva, seed {self.seed}", "", *self.preface(), ""]
        rows = [self._entry(number, question) for number, question in enumerate(self.questions)]
        return "\n".join([*head, *rows, f"{self.points} of {len(self.questions)} right.", ""])

    def preface(self) -> list[str]:
        """Return settings and requests, and the run that most questions are about."""
        steps = [f"    {step:2}  {row}" for step, row in enumerate(self.run)]
        return [
            *(f"- {one}" for one in self.setup),
            "- If your files are changed, the engine does not check its invariants.",
            "",
            "Your run (tokens by request):",
            "",
            *steps,
        ]

    def _entry(self, place: int, question: VivaQuestion) -> str:
        lines = [f"{place + 1}. {question.text}", *options_of(question), f"   Right: {question.right}."]
        if place < len(self.given):
            given = "none" if self.given[place] is None else self.given[place]
            lines.append(f"   Given: {given}, after {self.seconds[place]:.0f} s.")
        return "\n".join([*lines, ""])


def options_of(question: VivaQuestion) -> list[str]:
    """Return the numbered options; each option's continuation lines are indented."""
    return [f"   {number}) " + option.replace("\n", "\n      ") for number, option in enumerate(question.options, 1)]
