"""Chooses the part of a wrong implementation that an exam shows: the changed lines, their context, and their owner."""

import ast
from difflib import SequenceMatcher

AROUND = 3
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_in(text: str) -> list[tuple[int, int]]:
    """Return the first and last line of each function and method, counted from 0, with outer ones first."""
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, Function)]
    return [(node.lineno - 1, (node.end_lineno or node.lineno) - 1) for node in found]


def excerpt(reference: str, changed: str) -> list[str]:
    """Return the changed lines with up to three lines around them, below the head of their function.

    Return an empty list if a change is outside all functions, where three lines say too little, or if the excerpt shows
    a complete function of the reference.
    """
    lines, spans, shown = changed.splitlines(), functions_in(changed), set[int]()
    matcher = SequenceMatcher(None, reference.splitlines(), lines, autojunk=False)
    for tag, _, _, start, end in matcher.get_opcodes():
        if tag == "equal":
            continue
        start -= tag == "delete"  # the deleted lines came after this line
        around = [(first, last) for first, last in spans if first <= start and end - 1 <= last]
        if not around:
            return []
        first, last = around[-1]
        shown |= {first, *range(max(first, start - AROUND), min(last + 1, end + AROUND))}
    # the end of a docstring carries no information
    shown -= {number for number in shown if lines[number].strip() == '"""'}
    found, right = _with_gaps(lines, sorted(shown)), reference.splitlines()
    whole = ["\n".join(right[first : last + 1]) for first, last in functions_in(reference)]
    return [] if any(one in "\n".join(found) for one in whole) else found


def _with_gaps(lines: list[str], shown: list[int]) -> list[str]:
    found, last = list[str](), None
    for number in shown:
        if last is not None and number > last + 1:
            indent = len(lines[number]) - len(lines[number].lstrip())
            found.append(" " * indent + "...")
        found.append(lines[number])
        last = number
    return found
