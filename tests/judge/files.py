"""Submissions for testing the judge: the reference, changed in one phase or not at all."""

import re

from mini_vllm_labs.classroom.judge.submission import Submission
from tests.grading.checkout import PHASES, solution
from tests.mutants.catalog import alternatives, mutants

IMPORT_OF_ONE = re.compile(r"^( *)from solutions\.\w+ import (.+)$", re.MULTILINE)


def solved(*phases: int, **changed: str) -> Submission:
    """Return the reference's phases, some of them with different text (`phase3=...`)."""
    texts = {phase: changed.get(f"phase{phase}", solution(phase)) for phase in phases or PHASES}
    return Submission("solved", {phase: text.encode() for phase, text in texts.items()})


def mutant(phase: int, name: str) -> str:
    (found,) = (subject.text for subject in mutants(phase) if subject.name == name)
    return found


def texts_of_mistakes(phase: int) -> dict[str, str]:
    return {subject.name: subject.text for subject in mutants(phase)}


def fair_texts(phase: int) -> dict[str, str]:
    """Return the alternatives as a learner would hand them in: with imports from the reference inlined."""
    return {subject.name: IMPORT_OF_ONE.sub(renamed, subject.text) for subject in alternatives(phase)}


def renamed(line: re.Match[str]) -> str:
    """Return assignments that replace an import from the reference, whose text appears earlier in the same file."""
    pairs = [part.strip().partition(" as ") for part in line[2].split(",")]
    names = [f"{new} = {old}" for old, _, new in pairs if new]
    return line[1] + ("; ".join(names) or "pass")
