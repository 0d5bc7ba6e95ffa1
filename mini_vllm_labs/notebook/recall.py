"""Repeats wrongly answered questions in the next notebook, then two and four notebooks later."""

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.grading.history import note
from mini_vllm_labs.notebook.notice import Notice, Words
from mini_vllm_labs.pictures.prediction import Answer, Card, Question, checked_answer, is_right
from mini_vllm_labs.pictures.prediction.question import in_words

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.prediction.widgets import Deck

VERSION, AT_ONCE = 1, 3
INTERVALS = (1, 2, 4)
"""How many notebooks later an answer comes back, after 0, 1 and 2 right answers; after the third it does not."""


@dataclass(frozen=True)
class Missed:
    """A question with the learner's wrong answer and the correct answer; `claim`, `setup` and `why` are as on a `Card`.

    The question is due once `due` notebooks have been started. `num_right` is how many times in a row the learner has
    recalled the answer correctly.
    """

    notebook: str
    title: str
    question: Question
    said: Answer
    truth: Answer
    claim: str = ""
    setup: str = ""
    why: str = ""
    due: int = 0
    num_right: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        return self.notebook, self.title, self.question.text

    def asked(self) -> str:
        """Return the whole question as text, with the possible answers."""
        options = " / ".join(self.question.options)
        return " ".join(filter(None, [self.claim, self.setup, self.question.text, options and f"({options})"]))

    def answered(self) -> str:
        return f"{in_words(self.question, self.truth)}. {self.why}".strip()

    def card(self) -> Card:
        said = f"In {self.notebook} you said {in_words(self.question, self.said)}."
        title = f"Recall: {self.notebook}, {self.title}"
        return Card(title, self.claim, self.setup, self.question, self.truth, f"{said} {self.why}".strip(), "")


@dataclass(frozen=True)
class Memory:
    """The number of notebooks started, the last notebook started, and the missed questions."""

    num_started: int = 0
    last: str = ""
    missed: Sequence[Missed] = field(default_factory=list)

    def started(self, notebook: str) -> "Memory":
        """Count a notebook as started, unless it is the last one started."""
        return self if notebook == self.last else replace(self, num_started=self.num_started + 1, last=notebook)

    def due(self) -> list[Missed]:
        """Return at most three due questions from other notebooks, longest overdue first and at most one per title."""
        waiting = [one for one in self.missed if one.due <= self.num_started and one.num_right < len(INTERVALS)]
        first = {one.key[:2]: one for one in sorted(waiting, key=lambda one: -one.due) if one.notebook != self.last}
        return sorted(first.values(), key=lambda one: one.due)[:AT_ONCE]

    def noted(self, one: Missed) -> "Memory":
        """Add a wrong answer, replacing any earlier answer to the question; an identical answer changes nothing."""
        if any(one.key == kept.key and one.said == kept.said for kept in self.missed):
            return self
        return self._with(replace(one, due=self.num_started + INTERVALS[0]))

    def recalled(self, one: Missed, answer: Answer) -> "Memory":
        """Postpone a question that was recalled correctly; one recalled wrongly returns in the next notebook."""
        num_right = one.num_right + 1 if is_right(one.question, answer, one.truth) else 0
        later = (*INTERVALS, 0)[num_right]
        return self._with(replace(one, num_right=num_right, due=self.num_started + later))

    def _with(self, one: Missed) -> "Memory":
        return replace(self, missed=[*(kept for kept in self.missed if kept.key != one.key), one])


class Recall:
    """Stores the missed questions from a folder's notebooks in its `recall.json`, created at the first mistake."""

    def __init__(self, folder: Path = CHECKOUT / "notebooks") -> None:
        self.path = folder / "recall.json"

    def read(self) -> Memory:
        """Read the file. Raises `ValueError` if the content is damaged or has a different version."""
        try:
            return memory_of(json.loads(self.path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return Memory()
        except (OSError, ValueError) as error:
            kept = "It is left as it is, and so are your predictions; move it away to start anew."
            raise ValueError(f"{self.path} cannot be read: {error}. {kept}") from error

    def write(self, memory: Memory) -> None:
        part = self.path.with_suffix(".part")  # if the process dies here, the old file stays intact
        part.write_text(json.dumps({"version": VERSION} | asdict(memory), indent=1) + "\n", encoding="utf-8")
        part.replace(self.path)

    def note(self, answered: Iterable[Missed]) -> None:
        """Save wrong answers. An unreadable file stays unchanged; the start of the next notebook reports it."""
        wrong = [one for one in answered if not is_right(one.question, one.said, one.truth)]
        with suppress(ValueError):
            before = memory = self.read()
            for one in wrong:
                memory = memory.started(one.notebook).noted(one)
            if memory != before:
                self.write(memory)
                known = [(kept.key, kept.said) for kept in before.missed]
                new = [one for one in wrong if (one.key, one.said) not in known]
                for one in new:
                    note(("missed", {"question": f"{one.notebook}, {one.title}"}))

    def start(self, notebook: str) -> "Deck | Notice | Words":
        """Return a deck of the questions due at a notebook's start; answering one shows when it will come back."""
        try:
            before = self.read()
        except ValueError as error:
            return Notice("Nothing can be recalled", str(error))
        memory = before.started(notebook)
        if before.missed and memory != before:
            self.write(memory)
        return self.deck(memory.due()) if memory.due() else Words("Nothing to recall: a wrong answer comes back here.")

    def deck(self, due: Sequence[Missed]) -> "Deck":
        from mini_vllm_labs.pictures.prediction.widgets import Deck

        asked = {one.card().title: one for one in due}
        widget = Deck([one.card() for one in due], {})

        def keep(change: Any) -> None:
            for title in change["new"].keys() & asked.keys():  # only the first answer counts
                self.write(self.read().recalled(asked[title], change["new"][title]))
                del asked[title]

        widget.observe(keep, names="answers")
        return widget


def words_before(notebook: Path, title: str) -> str:
    """Return the text above the cell that shows a group of questions, starting at its heading, or ""."""
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError):
        return ""
    text = ""
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            text = source
        elif f'.ask("{title}")' in source:
            _, _, under = f"\n{text}".rpartition("\n#")
            heading, _, words = under.lstrip("# ").partition("\n")
            return " ".join(re.sub(r"\*\*|`", "", f"{heading}. {words}").split())
    return ""


def memory_of(kept: Any) -> Memory:
    """Decode a file's content. Raises `ValueError` if the content is damaged or has a different version."""
    version = kept.get("version") if isinstance(kept, dict) else None
    if version != VERSION:
        raise ValueError(f"the file's version is {version}, but it must be {VERSION}")
    try:
        missed = [missed_of(one) for one in kept["missed"]]
        return Memory(int(kept["num_started"]), str(kept["last"]), missed)
    except (KeyError, TypeError) as error:
        raise ValueError(f"a part is missing or has the wrong type ({error})") from error


def missed_of(kept: dict[str, Any]) -> Missed:
    asked = kept["question"]
    one = Missed(**kept | {"question": Question(**asked | {"options": tuple(asked["options"])})})
    for answer in (one.said, one.truth):
        checked_answer(one.question, answer)
    return replace(one, due=int(one.due), num_right=int(one.num_right))
