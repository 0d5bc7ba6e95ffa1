"""What became of the requests of one part."""

from collections import Counter
from dataclasses import dataclass, field

from bench.serve.answer import Answer
from bench.serve.faults.questions import Question


@dataclass(slots=True)
class Tally:
    """Counts of requests by their end, and everything that should not have been, with how often it was.

    Completed ones have their whole answer; refused ones an HTTP error, as they should; aborted ones were left by the
    client. `failed` ones ended with an error where a fault was injected on purpose.
    """

    requests: int = 0
    completed: int = 0
    equal: int = 0
    refused: int = 0
    aborted: int = 0
    failed: int = 0
    problems: Counter[str] = field(default_factory=Counter)

    def take(self, question: Question, answer: Answer, *, may_fail: bool = False) -> None:
        """Count an answer that was read to its end: it must be whole and right, unless it `may_fail`."""
        self.requests += 1
        if answer.error is None:
            self.completed += 1
            self.compare(question, answer.text)
        elif may_fail:
            self.failed += 1
        else:
            self.problems[answer.error] += 1

    def compare(self, question: Question, text: str) -> None:
        """Compare a whole text with the offline one."""
        if text == question.text:
            self.equal += 1
        else:
            self.problems[f"an answer differs: {text[:40]!r} and not {question.text[:40]!r}"] += 1

    def leave(self, question: Question, text: str) -> None:
        """Count a request that the client has left: what had arrived must be the beginning of the right answer."""
        self.requests += 1
        self.aborted += 1
        if not question.text.startswith(text):
            self.problems[f"a part of an answer differs: {text[:40]!r}"] += 1

    def refuse(self, what: str, is_right: bool, found: str) -> None:
        """Count a request that must be refused."""
        self.requests += 1
        if is_right:
            self.refused += 1
        else:
            self.problems[f"{what}: {found}"] += 1
