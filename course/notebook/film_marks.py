"""Where a film shows what a question is about: the step, and the request that stands out there."""

import re
from collections.abc import Sequence
from typing import Any

from course.views.film import Film
from course.views.prediction import Answer, Question


def film_marks(asked: Sequence[tuple[Question, Answer | None]], film: Film) -> list[dict[str, Any]]:
    """Return for each question with its true answer the player's `step` and `follow`, and both in `words`.

    A question such as "And how many does B compute?" is about the step of the one before it. The request is the answer,
    or the one that is named last. A question that names neither has an empty mark.
    """
    keys = {name.removeprefix("request "): key for key, name in film.follow}
    marks, step = list[dict[str, Any]](), -1
    for question, truth in asked:
        words = [*re.findall(r"\w+", question.text), *([truth] if isinstance(truth, str) else [])]
        found = re.search(r"\bstep (\d+)", question.text, re.IGNORECASE)
        is_elsewhere = found and film.word != "step"  # the pictures are rows of one step
        requests = [] if is_elsewhere else [word for word in words if word in keys][-1:]
        if question.subject == "in which step":
            step = truth if isinstance(truth, int) else -1
        elif found:
            step = int(found[1])
        is_there = film.word == "step" and 0 <= step < len(film)
        at = {"step": step} if is_there and (found or requests or question.subject == "in which step") else {}
        follow = {"follow": keys[requests[0]]} if requests else {}
        shown = ", ".join([*(f"step {step}" for _ in at), *requests])
        marks.append(at | follow | {"words": shown} if shown else {})
    return marks
