"""The exam that a seed selects from a phase's questions. Mutants with the same hint form one question."""

from dataclasses import dataclass
from random import Random

from tests.mutants.catalog import mutants, reference
from tests.mutants.exam.excerpt import excerpt
from tests.mutants.exam.record import NUM_OPTIONS, recorded

PHASES = range(1, 7)
LETTERS = "ABCD"


@dataclass(frozen=True)
class Question:
    """A mistake shown as code and as a run, and four statements; `options[right]` describes the mistake."""

    code: list[str]
    run: list[str]
    options: list[str]
    right: int
    hint: str


def exam(phase: int, seed: int, num_questions: int) -> list[Question]:
    """Return an exam, which is always the same for the same seed. Raises `ValueError` if the bank has fewer
    questions."""
    bank, random = recorded(phase), Random(f"{phase} {seed}")
    if not 1 <= num_questions <= len(bank):
        raise ValueError(f"--questions {num_questions}: choose 1 to {len(bank)} for phase {phase}")
    subjects, right_code = {one.name: one for one in mutants(phase)}, reference(phase).text
    code = {name: excerpt(right_code, subjects[name].text) for name in bank}
    questions = []
    for name in random.sample(list(bank), num_questions):
        others = [other for other in bank if other != name and other not in bank[name]["alike"]]
        random.shuffle(others)
        others.sort(key=lambda other: code[other][0] != code[name][0])  # mistakes in the same function come first
        options = [name, *others[: NUM_OPTIONS - 1]]
        random.shuffle(options)
        questions.append(Question(code[name], bank[name]["run"], options, options.index(name), subjects[name].hint))
    return questions
