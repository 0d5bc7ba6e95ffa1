"""`python -m tests.mutants.approaches`: seal the fair alternatives that a learner may see after a pass.

`tests/alternatives/approaches.toml` chooses them: under a task the names of alternatives of its phase, each with a
sentence on what it costs; `shows` has the functions that belong to the task.
"""

import ast
import json
import tomllib
from collections.abc import Container, Iterator

from course.grading.approaches import FOLDER, Approach, sealed
from tests.mutants.catalog import ROOT
from tests.mutants.diffs import read_diffs

CHOSEN = ROOT / "tests" / "alternatives" / "approaches.toml"


def chosen() -> dict[str, list[Approach]]:
    """Return the approaches of every task. Raises `KeyError` for an alternative that does not exist."""
    found = {}
    for task, told in tomllib.loads(CHOSEN.read_text(encoding="utf-8")).items():
        path = CHOSEN.with_name(f"phase{task.partition('.')[0]}.diff")
        added = {
            diff.name: "\n".join(line for place in diff.places for line in place.new if line not in place.old)
            for diff in read_diffs(path.read_text(encoding="utf-8"))
        }
        shows = told.pop("shows").split()
        found[task] = [Approach(name, cost, excerpt(added[name], shows)) for name, cost in told.items()]
    return found


def excerpt(code: str, names: Container[str]) -> str:
    """Return the functions and methods with these names, what is private, and the imports that they use."""
    lines = code.splitlines()
    parts = [part for node in ast.parse(code).body for part in kept(node, names, lines)]
    body = "\n".join(part for part in parts if not part.startswith(("import ", "from ")))
    imports = [part for part in parts if part.startswith(("import ", "from ")) and is_used(part, body)]
    return "\n".join([*imports, body]).strip() + "\n"


def kept(node: ast.stmt, names: Container[str], lines: list[str]) -> Iterator[str]:
    if isinstance(node, ast.ClassDef):
        public = node.name.strip("_") == node.name and any(function_name(inner) in names for inner in node.body)
        if public or node.name.startswith("_"):
            first = node.body[0].lineno - 1
            yield "\n" + "\n".join(lines[first_line(node) - 1 : first])
            for inner in node.body:
                if not public or not function_name(inner) or function_name(inner) in names or is_private(inner):
                    yield source(inner, lines) + ("\n" if function_name(inner) else "")
    elif isinstance(node, ast.FunctionDef):
        if node.name in names or is_private(node):
            yield "\n" + source(node, lines)
    elif not isinstance(node, ast.Expr) and "solutions" not in source(node, lines):
        yield source(node, lines)


def function_name(node: ast.stmt) -> str:
    return node.name if isinstance(node, ast.FunctionDef) else ""


def is_private(node: ast.stmt) -> bool:
    name = function_name(node)
    return name.startswith("_") and not name.startswith("__")


def first_line(node: ast.ClassDef | ast.FunctionDef) -> int:
    return min([node.lineno, *(one.lineno for one in node.decorator_list)])


def source(node: ast.stmt, lines: list[str]) -> str:
    start = first_line(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else node.lineno
    return "\n".join(lines[start - 1 : node.end_lineno])


def is_used(line: str, body: str) -> bool:
    """Return whether any name that an import brings occurs in the code."""
    (node,) = ast.parse(line).body
    assert isinstance(node, ast.Import | ast.ImportFrom)
    return any((name.asname or name.name.partition(".")[0]) in body for name in node.names)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    by_phase: dict[str, dict[str, str]] = {}
    for task, found in chosen().items():
        by_phase.setdefault(task.partition(".")[0], {})[task] = sealed(task, found)
        print(f"task {task}: {len(found)}")
    for phase, texts in by_phase.items():
        (FOLDER / f"phase{phase}.json").write_text(json.dumps(texts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
