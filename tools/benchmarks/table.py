"""What the parts of the page share."""

from collections.abc import Mapping
from typing import Any

Record = Mapping[str, Any]


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table; all columns but the first are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n"
