"""Whether a C file still has the line that stands for its body: known without a compiler, and without torch."""

import re

UNWRITTEN = re.compile(r'^#error "(Phase \d+, task \d+: .+)"$', re.MULTILINE)


def unwritten_task(code: str) -> str | None:
    """Return what the code's `#error` says is not written, or None."""
    found = UNWRITTEN.search(code)
    return found and found.group(1)
