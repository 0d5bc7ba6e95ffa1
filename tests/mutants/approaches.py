"""`python -m tests.mutants.approaches` seals the fair alternatives that a learner may see after a pass.

`tests/alternatives/approaches.toml` selects them: each task lists the alternatives from its phase by name, each with a
sentence on its cost; `shows` lists the functions that belong to the task.
"""

import ast
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Container
from pathlib import Path

from mini_vllm_labs.grading.approaches import FOLDER, Approach, sealed, task_named
from tests.mutants.catalog import ROOT
from tests.mutants.diffs import read_diffs

CHOSEN = ROOT / "tests" / "alternatives" / "approaches.toml"
PART_OF_A_CLASS = re.compile(r"^class (\w+)\((?:Given|\1)\):$", re.MULTILINE)


def chosen() -> dict[str, list[Approach]]:
    """Return the approaches of every task. Raises `KeyError` for an unknown alternative."""
    found: dict[str, list[Approach]] = {}
    for task, told in tomllib.loads(CHOSEN.read_text(encoding="utf-8")).items():
        shows, planned = told.pop("shows").split(), task_named(task)[0].names
        diffs = read_diffs(CHOSEN.with_name(f"phase{task.partition('.')[0]}.diff").read_text(encoding="utf-8"))
        added = {one.name: "\n".join(line for at in one.places for line in at.new[len(at.old) :]) for one in diffs}
        found[task] = [Approach(name, cost, excerpt(added[name], shows, planned)) for name, cost in told.items()]
    # ruff takes hardly any time if it formats all of them in a single call
    with tempfile.TemporaryDirectory() as folder:
        files = {(task, at): Path(folder) / f"{task}_{at}.py" for task in found for at in range(len(found[task]))}
        for (task, at), file in files.items():
            file.write_text(found[task][at].code, encoding="utf-8")
        for step in (["check", "--fix", "--select", "F401", "--isolated"], ["format", "--isolated"]):
            subprocess.run([sys.executable, "-m", "ruff", *step, "-q", folder], check=True)
        for (task, at), file in files.items():
            found[task][at] = Approach(found[task][at].name, found[task][at].cost, file.read_text(encoding="utf-8"))
    return found


def excerpt(code: str, shows: Container[str], planned: Container[str]) -> str:
    """Return the functions and methods that are shown, and the names they use from outside the phase."""
    tree = ast.parse(code)
    nodes: list[ast.Module | ast.ClassDef] = [tree]
    nodes += [one for one in tree.body if isinstance(one, ast.ClassDef) and one.name in planned]
    for node in nodes:
        of = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        node.body = [one for one in node.body if is_shown(one, of, shows, planned)]
        helpers = [
            one for one in node.body if isinstance(one, ast.FunctionDef | ast.ClassDef) and of + one.name not in planned
        ]
        unused = [one for one in helpers if len(re.findall(rf"\b{one.name}\b", ast.unparse(node))) == 1]
        node.body = [one for one in node.body if one not in unused]
    tree.body = [one for one in tree.body if not isinstance(one, ast.ClassDef) or one.body]
    return PART_OF_A_CLASS.sub(r"class \1:  # what is not shown is like yours", ast.unparse(tree))


def is_shown(node: ast.stmt, owner: str, shows: Container[str], planned: Container[str]) -> bool:
    if isinstance(node, ast.FunctionDef) and owner + node.name in planned:
        return node.name in shows
    return not isinstance(node, ast.Expr) and not (isinstance(node, ast.ImportFrom) and "solutions" in str(node.module))


def main() -> None:
    """Seal the chosen approaches, and print the number of approaches per task."""
    FOLDER.mkdir(exist_ok=True)
    by_phase: dict[str, dict[str, str]] = {}
    for task, found in chosen().items():
        by_phase.setdefault(task.partition(".")[0], {})[task] = sealed(task, found)
        print(f"task {task}: {len(found)}")
    for phase, texts in by_phase.items():
        (FOLDER / f"phase{phase}.json").write_text(json.dumps(texts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
