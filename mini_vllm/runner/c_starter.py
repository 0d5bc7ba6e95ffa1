"""Checks whether a C file still has its `#error` line, without a compiler and without torch."""

import re

UNWRITTEN = re.compile(r'^#error "(Phase \d+, task \d+: .+)"$', re.MULTILINE)


def unwritten_task(code: str) -> str | None:
    """Return the task that the code's `#error` line marks as unwritten, or None."""
    found = UNWRITTEN.search(code)
    return found and found.group(1)
