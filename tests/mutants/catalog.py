"""The implementations that the graded tests run on: the reference, its mutants and its fair alternatives.

The mutants of a phase are `phaseN.diff` in this folder; a diff shows what is wrong without any quoting. A diff
against a fair alternative has its name behind the phase's: `phaseN_name_of_the_alternative.diff`.
The alternatives of a phase are `tests/alternatives/phaseN/*.py`: a file holds only the classes and functions
that are written differently, and what it defines takes the place of the reference's. File names are titles.
"""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mini_vllm.assembly.lineup import ALL_NAMES
from tests.mutants.diffs import read_diffs, without_comments

ROOT = Path(__file__).parents[2]
PHASES = tuple(range(1, len(ALL_NAMES) + 1))

Kind = Literal["reference", "mutant", "alternative"]


@dataclass(frozen=True, slots=True)
class Subject:
    """One implementation of a phase: `text` takes the place of the reference's file."""

    phase: int
    kind: Kind
    name: str
    text: str
    hint: str = ""


def module_name(phase: int) -> str:
    """Return the name that a phase has as a lab folder and as a module of solutions."""
    return f"phase{phase}_{ALL_NAMES[phase - 1].lower().replace(' ', '_')}"


def reference(phase: int) -> Subject:
    """Return the reference without its comment lines, so that no diff has to quote them."""
    text = (ROOT / "solutions" / f"{module_name(phase)}.py").read_text(encoding="utf-8")
    return Subject(phase, "reference", "the reference itself", without_comments(text))


def mutants(phase: int) -> list[Subject]:
    """Return the wrong implementations of a phase. Raises `DiffError` if one does not fit what it changes."""
    folder = Path(__file__).parent
    found = _mutants_of(reference(phase), folder / f"phase{phase}.diff")
    for alternative in alternatives(phase):
        path = folder / f"phase{phase}_{alternative.name.replace(' ', '_')}.diff"
        found += _mutants_of(alternative, path) if path.exists() else []
    return found


def _mutants_of(original: Subject, path: Path) -> list[Subject]:
    diffs = read_diffs(path.read_text(encoding="utf-8"))
    return [Subject(original.phase, "mutant", diff.name, diff.apply(original.text), diff.hint) for diff in diffs]


def alternatives(phase: int) -> list[Subject]:
    """Return the fair implementations of a phase. Raises `ValueError` if one replaces nothing."""
    original = reference(phase).text
    subjects = []
    for path in sorted((ROOT / "tests" / "alternatives" / f"phase{phase}").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not definitions(text) & definitions(original):
            raise ValueError(f"{path} defines nothing that the reference defines")
        subjects.append(Subject(phase, "alternative", path.stem.replace("_", " "), f"{original}\n\n{text}"))
    return subjects


def definitions(text: str) -> set[str]:
    """Return the public functions and classes that a module defines."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    names = {node.name for node in ast.parse(text).body if isinstance(node, kinds)}
    return {name for name in names if not name.startswith("_")}
