"""The implementations that the graded tests run on: the reference, its mutants and its fair alternatives.

The mutants of a phase are `phaseN.diff` in this folder; a diff shows the difference without quoting anything else. A
diff against a fair alternative is `phaseN_name_of_the_alternative.diff`. `refilled.py` adds one mutant for each
container. The alternatives of a phase are `tests/alternatives/phaseN.diff`. Most of them append the classes and
functions that differ to the reference, so that the last definition counts.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mini_vllm_labs.runs.starter_status import LABS, lab_folder
from tests.mutants.diffs import read_diffs, without_comments
from tests.mutants.refilled import refilled

ROOT = Path(__file__).parents[2]
PHASES = LABS

Kind = Literal["reference", "mutant", "alternative"]


@dataclass(frozen=True, slots=True)
class Subject:
    """One implementation of a phase: `text` replaces the reference's file."""

    phase: int
    kind: Kind
    name: str
    text: str
    hint: str = ""


def module_name(phase: int) -> str:
    """Return a phase's name as a lab folder and as a module of solutions."""
    return lab_folder(phase)


def reference(phase: int) -> Subject:
    """Return the reference without its comment lines, so that no diff has to quote them."""
    text = (ROOT / "solutions" / f"{module_name(phase)}.py").read_text(encoding="utf-8")
    return Subject(phase, "reference", "the reference itself", without_comments(text))


def mutants(phase: int) -> list[Subject]:
    """Return the wrong implementations of a phase.

    Raises `DiffError` if one does not match the text that it changes.
    """
    folder = Path(__file__).parent
    original = reference(phase)
    found = _changed(original, folder / f"phase{phase}.diff", "mutant")
    found += [Subject(phase, "mutant", name, text) for name, text in refilled(phase, original.text).items()]
    for alternative in alternatives(phase):
        path = folder / f"phase{phase}_{alternative.name.replace(' ', '_')}.diff"
        found += _changed(alternative, path, "mutant") if path.exists() else []
    return found


def alternatives(phase: int) -> list[Subject]:
    """Return the fair implementations of a phase. Raises `DiffError` if one does not fit the reference."""
    return _changed(reference(phase), ROOT / "tests" / "alternatives" / f"phase{phase}.diff", "alternative")


def _changed(original: Subject, path: Path, kind: Kind) -> list[Subject]:
    diffs = read_diffs(path.read_text(encoding="utf-8"))
    return [Subject(original.phase, kind, diff.name, diff.apply(original.text), diff.hint) for diff in diffs]
