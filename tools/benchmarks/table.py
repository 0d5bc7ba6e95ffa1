"""What the parts of the page share."""

from collections.abc import Callable, Mapping
from typing import Any

Record = Mapping[str, Any]


def section(command: str, record: Record | None, body: Callable[[Record], str]) -> str:
    """Return the section of a command: its heading, and what its record shows, if it was run."""
    return f"## `mini-vllm {command}`\n\n" + ("Not measured.\n\n" if record is None else body(record))


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table; all columns but the first are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n"
