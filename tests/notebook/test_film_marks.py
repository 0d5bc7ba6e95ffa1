"""What a verdict marks in the film below it: the step and the request that its question names, or its answer."""

from dataclasses import replace

import pytest

from course.notebook.film_marks import film_marks
from course.views.prediction import Answer, Question
from course.views.time_machine import time_machine
from tests.views.runs import small

FILM = time_machine(small())
STEP = "in which step"


@pytest.mark.parametrize(
    ("text", "subject", "truth", "words"),
    [
        ("Step 2: how many tokens?", "how many", 9, "step 2"),
        ("How many does r1 compute then?", "how many", 2, "step 4, r1"),
        ("Which one is preempted for r2?", "which one", "r0", "step 4, r0"),
        ("r0 waits. When does r1 resume?", STEP, 5, "step 5, r1"),
        ("When does r1 resume?", STEP, None, "r1"),
        ("How many tokens does step 999 compute?", "how many", 1, ""),
        ("How many are computed in all?", "how many", 99, ""),
        ("Which run in step 1?", "which ones", ["r0", "r1"], "step 1"),
    ],
)
def test_a_question_marks_what_it_names_or_what_answers_it(
    text: str, subject: str, truth: Answer | None, words: str
) -> None:
    before = (Question("When?", STEP), 4)
    mark = film_marks([before, (Question(text, subject), truth)], FILM)[1]
    assert mark.get("words", "") == words
    assert ([f"step {mark['step']}"] if "step" in mark else []) == [
        part for part in words.split(", ") if "step" in part
    ]
    assert mark.get("follow", "") == {name.split()[-1]: key for key, name in FILM.follow}.get(words[-2:], "")


def test_in_a_film_of_one_step_no_other_step_is_marked() -> None:
    asked = [(Question(text, "how many"), 3) for text in ("Step 1: how many of r0?", "How many of r0?")]
    assert [mark.get("words") for mark in film_marks(asked, replace(FILM, word="row"))] == [None, "r0"]
