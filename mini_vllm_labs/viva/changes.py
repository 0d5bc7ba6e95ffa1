"""Finds small changes to a learner's file: a deleted line, or a replaced operator."""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

PAIRS = (("<", "<="), (">", ">="), ("==", "!="), ("is", "is not"), ("and", "or"), ("min", "max"))
TWINS = dict([*PAIRS, *(pair[::-1] for pair in PAIRS)])
DELETED = (ast.Assign, ast.AugAssign, ast.Expr, ast.Break, ast.Continue)


@dataclass(frozen=True)
class Change:
    """A changed file: its phase, the line, the words before and after the change, and the whole text."""

    phase: int
    line: int
    old: str
    new: str
    text: str


def deletions(phase: int, text: str, lines: Collection[int]) -> Iterator[Change]:
    """Yield copies of the file, each with one of these lines removed; each line is a complete statement."""
    rows = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, DELETED) or node.lineno != node.end_lineno or node.lineno not in lines:
            continue
        if rows[node.lineno - 1].strip() != ast.get_source_segment(text, node):
            continue  # skips docstrings, statements after a semicolon, and lines that end with a comment
        row = rows[node.lineno - 1]
        text_without = replaced(rows, node.lineno, len(row) - len(row.lstrip()), len(row), "pass")
        yield Change(phase, node.lineno, row.strip(), "pass", text_without)


def swaps(phase: int, text: str, lines: Collection[int]) -> Iterator[Change]:
    """Yield the file with one operator (or `and`, `or`, `min` or `max`) on these lines replaced by its counterpart."""
    rows = text.splitlines()
    for line, start, end in places_of_words(ast.parse(text)):
        # `ast` counts in bytes, so a line must be plain ASCII.
        if line in lines and rows[line - 1].isascii() and (old := rows[line - 1][start:end].strip(" ()")) in TWINS:
            new = rows[line - 1][start:end].replace(old, TWINS[old])
            yield Change(phase, line, old, TWINS[old], replaced(rows, line, start, end, new))


def places_of_words(tree: ast.AST) -> Iterator[tuple[int, int, int]]:
    """Yield the line, start and end of each name and of the text between two operands on one line."""
    for node in ast.walk(tree):
        operands: list[ast.expr] = []
        if isinstance(node, ast.Name):
            yield node.lineno, node.col_offset, node.end_col_offset or 0
        elif isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
        elif isinstance(node, ast.BoolOp):
            operands = node.values
        for left, right in pairwise(operands):
            if left.end_lineno == right.lineno:
                yield right.lineno, left.end_col_offset or 0, right.col_offset


def replaced(rows: list[str], line: int, start: int, end: int, new: str) -> str:
    """Return the file with the characters from `start` to `end` of a line replaced."""
    row = rows[line - 1]
    return "\n".join([*rows[: line - 1], row[:start] + new + row[end:], *rows[line:]]) + "\n"
