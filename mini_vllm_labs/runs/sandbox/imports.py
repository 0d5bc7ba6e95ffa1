"""Finds imports in a learner's file that are forbidden because the packages that grade it contain the answers."""

import ast
import re
from collections.abc import Container, Iterator
from functools import lru_cache

REFUSED = ("mini_vllm_labs", "solutions", "tests")
# Task 3.1 asks learners to write a sorted queue.
ANSWERS = ("mini_vllm.electives.policy.policy_queue", "mini_vllm.electives.policy.policy_step")
NAMED = re.compile(rf"({'|'.join(REFUSED)}|mini_vllm\.electives\.policy|labs)(\.\w+)*")
STARTER = re.compile(r"labs\.phase\d+_\w+\.starter(_\w+)?(\.|$)")
IMPORTERS = ("import_module", "__import__", "find_spec", "run_module")


@lru_cache  # each forked test checks the file again
def refused_import(source: str | bytes) -> str:
    """Return a sentence about a file's first forbidden import, or an empty string if there is none.

    Starters may import `mini_vllm` and other phases' starters. Returns an empty string if the file is not Python.
    """
    found = [(line, name) for line, name in imported_names(source) if is_refused(name)]
    if not found:
        return ""
    line, name = min(found)
    return (
        f"line {line} imports {name}: your answer must be in your own file. A starter may import mini_vllm, other "
        f"starters and installed libraries, but nothing from {', '.join(REFUSED[:-1])} or {REFUSED[-1]}."
    )


def imported_names(source: str | bytes) -> Iterator[tuple[int, str]]:
    """Yield the line and name of each import in a source text; yield nothing if the text is not Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # importing the file will show the error
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr)]
    aliases = [alias for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names]
    importers = {*IMPORTERS, *(alias.asname for alias in aliases if alias.name in IMPORTERS and alias.asname)}
    for node in nodes:
        yield from ((node.lineno, name) for name in _imported(node, importers))


def is_refused(name: str) -> bool:
    top = name.partition(".")[0]
    return top in REFUSED or name.startswith(ANSWERS) or (top == "labs" and not STARTER.match(name))


def _imported(node: ast.AST, importers: Container[str]) -> Iterator[str]:
    """Yield the modules that a node imports, including names passed as strings to import functions."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(level=0, module=str() as module, names=names):
            yield from (f"{module}.{alias.name}" for alias in names)
        case ast.ImportFrom(level=1 | 2 as level, module=module, names=names):
            package = "labs.phase0_own" if level == 1 else "labs"  # any phase will do here
            yield from (".".join(filter(None, [package, module, alias.name])) for alias in names)
        case ast.ImportFrom():
            yield "labs"
        case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) if called in importers:
            yield from (text for text in _texts(node) if NAMED.fullmatch(text))
        case ast.Call(func=ast.Name(id="exec" | "eval" | "compile")):
            yield from (name for text in _texts(node) for _, name in imported_names(text))
        case ast.Constant(value=str() as text) if "." in text and NAMED.fullmatch(text):
            yield text


def _texts(node: ast.AST) -> list[str]:
    return [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant) and isinstance(inner.value, str)]
