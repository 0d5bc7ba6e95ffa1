"""The questions that are possible, and an exam drawn from them.

`phaseN.json` has, for each of some mutants, a run in which it is wrong, and the mutants that give the same wrong answer
to a graded test. Those are never offered beside it, nor are mutants with the same hint: the bank has each hint once.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypedDict

from tests.mutants.catalog import mutants, reference
from tests.mutants.exam.excerpt import excerpt

FOLDER = Path(__file__).parent
PHASES = range(1, 7)
NUM_OPTIONS = 4
LETTERS = "ABCD"


class Recorded(TypedDict):
    """A wrong run: the graded test, its situation and what differs; and the mutants that a test does not tell apart."""

    test: str
    run: list[str]
    alike: list[str]


@dataclass(frozen=True)
class Question:
    """A mistake as code and as a run, and four sentences of which `options[right]` says what is wrong."""

    code: list[str]
    run: list[str]
    options: list[str]
    right: int
    hint: str


def recorded(phase: int) -> dict[str, Recorded]:
    """Return the bank of a phase by the name of the mutant."""
    found: dict[str, Recorded] = json.loads((FOLDER / f"phase{phase}.json").read_text(encoding="utf-8"))
    return found


def exam(phase: int, seed: int, num_questions: int) -> list[Question]:
    """Return an exam, the same for the same seed. Raises `ValueError` if the bank has fewer questions."""
    bank, random = recorded(phase), Random(f"{phase} {seed}")
    if not 1 <= num_questions <= len(bank):
        raise ValueError(f"--questions {num_questions}: phase {phase} has 1 to {len(bank)}")
    subjects, right_code = {one.name: one for one in mutants(phase)}, reference(phase).text
    code = {name: excerpt(right_code, subjects[name].text) for name in bank}
    questions = []
    for name in random.sample(list(bank), num_questions):
        others = [other for other in bank if other != name and other not in bank[name]["alike"]]
        random.shuffle(others)
        others.sort(key=lambda other: code[other][0] != code[name][0])  # first those of the same function
        options = [name, *others[: NUM_OPTIONS - 1]]
        random.shuffle(options)
        questions.append(Question(code[name], bank[name]["run"], options, options.index(name), subjects[name].hint))
    return questions
