"""`python -m tests.mutants.approaches`: seal the fair alternatives that a learner may see after a pass.

`tests/alternatives/approaches.toml` chooses them: under a task the names of alternatives of its phase, each with a
sentence on what it costs; `shows` has the functions that belong to the task.
"""

import ast
import json
import re
import tomllib
from collections.abc import Container, Iterator
from dataclasses import dataclass

from course.grading.approaches import FOLDER, Approach, sealed, task_named
from tests.mutants.catalog import ROOT
from tests.mutants.diffs import read_diffs

CHOSEN = ROOT / "tests" / "alternatives" / "approaches.toml"


@dataclass(frozen=True)
class Piece:
    """A definition or a statement of a module, or of a class whose header is `owner`. `planned`: the phase has it.

    An import has all names that it brings, with `|` between them.
    """

    name: str
    text: str
    owner: str = ""
    planned: bool = False


def chosen() -> dict[str, list[Approach]]:
    """Return the approaches of every task. Raises `KeyError` for an alternative that does not exist."""
    found = {}
    for task, told in tomllib.loads(CHOSEN.read_text(encoding="utf-8")).items():
        path = CHOSEN.with_name(f"phase{task.partition('.')[0]}.diff")
        added = {
            diff.name: "\n".join(line for place in diff.places for line in place.new[len(place.old) :])
            for diff in read_diffs(path.read_text(encoding="utf-8"))
        }
        shows, planned = told.pop("shows").split(), task_named(task)[0].names
        found[task] = [Approach(name, cost, excerpt(added[name], shows, planned)) for name, cost in told.items()]
    return found


def excerpt(code: str, names: Container[str], planned: Container[str]) -> str:
    """Return the functions and methods with these names, and what they use that is no part of the phase itself."""
    pieces = list(pieces_of(code, planned))
    kept = {piece for piece in pieces if piece.name in names and piece.planned}
    used: set[Piece] = set()
    while used != kept:
        used = set(kept)
        text = "\n".join(piece.text + piece.owner for piece in kept)
        kept |= {one for one in pieces if not one.planned and one.name and re.search(rf"\b({one.name})\b", text)}
    owners = {piece.owner for piece in kept}
    parts, header = list[str](), ""
    for piece in pieces:
        if piece in kept or (piece.owner and piece.owner in owners and not piece.name):
            parts += [f"\n{piece.owner}"] if piece.owner not in ("", header) else []
            header = piece.owner
            parts.append(piece.text)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).strip() + "\n"


def pieces_of(code: str, planned: Container[str]) -> Iterator[Piece]:
    lines = code.splitlines()
    for node in ast.parse(code).body:
        text = source(node, lines)
        if isinstance(node, ast.ClassDef) and node.name in planned:
            for inner in [inner for inner in node.body if not isinstance(inner, ast.Expr)]:
                name = inner.name if isinstance(inner, ast.FunctionDef) else ""
                space = "\n" if name else ""
                yield Piece(
                    name, source(inner, lines) + space, header_of(node, lines), f"{node.name}.{name}" in planned
                )
        elif isinstance(node, ast.Import | ast.ImportFrom):
            is_ours = isinstance(node, ast.ImportFrom) and str(node.module).startswith("solutions")
            brought = [alias.asname or alias.name.partition(".")[0] for alias in node.names]
            yield Piece("" if is_ours else "|".join(brought), text)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield Piece(node.name, f"\n{text}\n", planned=node.name in planned)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield Piece(node.targets[0].id, text)


def header_of(node: ast.ClassDef, lines: list[str]) -> str:
    """Return the lines above a class's body; of one that changes parts of the reference, that the rest is not shown."""
    text = "\n".join(lines[first_line(node) - 1 : node.body[0].lineno - 1]).rstrip()
    return re.sub(rf"\((Given|{node.name})\):$", ":  # what is not shown is like yours", text)


def source(node: ast.stmt, lines: list[str]) -> str:
    return "\n".join(lines[first_line(node) - 1 : node.end_lineno])


def first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def main() -> None:
    """Seal what is chosen, and print how many approaches each task has."""
    FOLDER.mkdir(exist_ok=True)
    by_phase: dict[str, dict[str, str]] = {}
    for task, found in chosen().items():
        by_phase.setdefault(task.partition(".")[0], {})[task] = sealed(task, found)
        print(f"task {task}: {len(found)}")
    for phase, texts in by_phase.items():
        (FOLDER / f"phase{phase}.json").write_text(json.dumps(texts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
