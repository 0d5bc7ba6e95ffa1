"""Finds small changes of a learner's file: a line that is deleted, an operator that is another."""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

SWAPS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
OTHER_WORDS = {"min": "max", "max": "min", "and": "or", "or": "and"}
DELETED = (ast.Assign, ast.AugAssign, ast.Expr, ast.Break, ast.Continue)


@dataclass(frozen=True)
class Change:
    """A changed file: its phase, the line, the words before and after, and the whole text."""

    phase: int
    line: int
    old: str
    new: str
    text: str


def deletions(phase: int, text: str, lines: Collection[int]) -> Iterator[Change]:
    """Yield the file without one of these lines, each of which holds a whole statement."""
    rows = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, DELETED) or node.lineno != node.end_lineno or node.lineno not in lines:
            continue
        if rows[node.lineno - 1].strip() != ast.get_source_segment(text, node):
            continue  # a docstring, a statement after a semicolon, a line with a comment at its end
        row = rows[node.lineno - 1]
        text_without = replaced(rows, node.lineno, len(row) - len(row.lstrip()), len(row), "pass")
        yield Change(phase, node.lineno, row.strip(), "pass", text_without)


def swaps(phase: int, text: str, lines: Collection[int]) -> Iterator[Change]:
    """Yield the file with one operator, `and`, `or`, `min` or `max` on these lines swapped for its twin."""
    rows = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPS:
            (old, new), parts = SWAPS[type(node.ops[0])], (node.left, node.comparators[0])
        elif isinstance(node, ast.BoolOp) and len(node.values) == 2:
            old = "and" if isinstance(node.op, ast.And) else "or"
            new, parts = OTHER_WORDS[old], (node.values[0], node.values[1])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            line, start = node.func.lineno, node.func.col_offset
            old, new = node.func.id, OTHER_WORDS[node.func.id]
            if line in lines and rows[line - 1].isascii():
                yield Change(phase, line, old, new, replaced(rows, line, start, start + len(old), new))
            continue
        else:
            continue
        line, start, end = parts[0].lineno, parts[0].end_col_offset or 0, parts[1].col_offset
        between = rows[line - 1][start:end]
        # An operator on one line of plain characters, or else its place in the line would have to be searched.
        if line in lines and parts[0].end_lineno == parts[1].lineno == line and between.strip(" ()") == old:
            if rows[line - 1].isascii():
                yield Change(phase, line, old, new, replaced(rows, line, start, end, between.replace(old, new)))


def replaced(rows: list[str], line: int, start: int, end: int, new: str) -> str:
    """Return the file with the characters from `start` to `end` of a line replaced."""
    row = rows[line - 1]
    return "\n".join([*rows[: line - 1], row[:start] + new + row[end:], *rows[line:]]) + "\n"
