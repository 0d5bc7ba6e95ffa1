"""Reads the public surface of a module from its source: names, signatures and docstrings."""

import ast
from collections.abc import Iterator
from pathlib import Path

from mini_vllm_labs.runs.starter_status import LABS, starter_path

ROOT = Path(__file__).parents[2]
PHASES = LABS
DUNDERS = {"__init__", "__len__", "__iter__"}


def solution_path(phase: int) -> Path:
    return ROOT / "solutions" / f"{starter_path(phase).parent.name}.py"


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def is_public(name: str) -> bool:
    return not name.startswith("_") or name in DUNDERS


def surface(body: list[ast.stmt], prefix: str = "") -> dict[str, str]:
    """Return every public name of a module or class body, together with its definition as other code sees it."""
    names: dict[str, str] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            names[prefix + node.name] = function(node)
        elif isinstance(node, ast.ClassDef):
            head = ", ".join(ast.unparse(base) for base in node.bases)
            names[prefix + node.name] = f"class({head})\n{ast.get_docstring(node)}"
            if is_public(node.name):
                names |= surface(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign) or (isinstance(node, ast.AnnAssign) and node.value):
            names |= {prefix + name: ast.unparse(node) for name in targets(node)}
    return {name: seen for name, seen in names.items() if is_public(name.rpartition(".")[2])}


def function(node: ast.FunctionDef) -> str:
    decorators = "".join(f"@{ast.unparse(decorator)}\n" for decorator in node.decorator_list)
    returns = ast.unparse(node.returns) if node.returns else "?"
    # A starter's `__init__` may explain what to store; in a solution, the code shows it.
    docstring = None if node.name == "__init__" else ast.get_docstring(node)
    return f"{decorators}({ast.unparse(node.args)}) -> {returns}\n{docstring}"


def targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def declared_attributes(tree: ast.Module) -> set[str]:
    """Return `Class.attribute` for attributes that classes declare without a value because `__init__` sets them."""
    return {
        f"{node.name}.{name}"
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and statement.value is None
        for name in targets(statement)
    }


def attributes_set(tree: ast.Module) -> set[str]:
    return {
        f"{node.name}.{target.attr}"
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for target in ast.walk(node)
        if isinstance(target, ast.Attribute)
        and isinstance(target.ctx, ast.Store)
        and ast.unparse(target.value) == "self"
    }


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
