"""Which imports a learner's file must not have: the packages that grade it know the answers."""

import ast
import re
from collections.abc import Iterator

REFUSED = ("bench", "classroom", "cli", "course", "serving", "solutions", "tests", "tools")
NAMED = re.compile(rf"({'|'.join(REFUSED)}|labs)(\.\w+)*")
STARTER = re.compile(r"labs\.phase\d_\w+\.starter(_\w+)?(\.|$)")
IMPORTERS = ("import_module", "__import__", "find_spec", "run_module")


def refused_import(source: str | bytes) -> str:
    """Return a sentence about the first import of a file that is refused; empty if there is none, or no Python.

    Starters may import `mini_vllm`, and other phases' starters.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""  # the import itself says what is wrong
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr)]
    found = [(node.lineno, name) for node in nodes for name in _imported(node) if _is_refused(name)]
    if not found:
        return ""
    line, name = min(found)
    return (
        f"line {line} imports {name}: your answer has to be in your own file. A starter may import mini_vllm, other "
        f"starters and installed libraries, and nothing of {', '.join(REFUSED[:-1])} or {REFUSED[-1]}."
    )


def _is_refused(name: str) -> bool:
    top = name.partition(".")[0]
    return top in REFUSED or (top == "labs" and not STARTER.match(name))


def _imported(node: ast.AST) -> Iterator[str]:
    """Yield the modules that a node imports, or names as texts where that is how they are imported."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(level=0, module=str() as module, names=names):
            yield from (f"{module}.{alias.name}" for alias in names)
        case ast.ImportFrom(level=1 | 2 as level, module=module, names=names):
            package = "labs.phase0_own" if level == 1 else "labs"
            yield from (".".join(filter(None, [package, module, alias.name])) for alias in names)
        case ast.ImportFrom():
            yield "labs"
        case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) if called in IMPORTERS:
            texts = [str(inner.value) for inner in ast.walk(node) if isinstance(inner, ast.Constant)]
            yield from (text for text in texts if NAMED.fullmatch(text))
        case ast.Constant(value=str() as text) if "." in text and NAMED.fullmatch(text):
            yield text
