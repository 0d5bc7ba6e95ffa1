"""Chooses hints for exceptions from the learner's code, because the likely mistake depends on the call."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mini_vllm_labs.grading.labtest.expect import explained
from mini_vllm_labs.runs.sandbox.frames import learners_frames


@dataclass(frozen=True, slots=True)
class CrashHint:
    """A question for exceptions of type `kind` raised in the function `inside`, if the message contains `word`."""

    kind: type[Exception] | tuple[type[Exception], ...]
    question: str
    inside: str = ""
    word: str = ""

    def fits(self, error: Exception) -> bool:
        functions = [frame.f_code.co_name for frame, _ in learners_frames(error.__traceback__)]
        is_inside = not self.inside or self.inside in functions
        return isinstance(error, self.kind) and is_inside and self.word in str(error)


@contextmanager
def learners_call(situation: Sequence[str], hints: Sequence[CrashHint] = ()) -> Iterator[None]:
    """Add the situation and the first matching hint to an exception from the learner's code."""
    try:
        with explained(situation):
            yield
    except Exception as error:
        question = next((hint.question for hint in hints if hint.fits(error)), "")
        if question:
            error.add_note(f"Hint: {question}")
        raise
