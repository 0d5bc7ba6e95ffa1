"""Whether a C file still has the line that stands for its body: known without a compiler, and without torch."""

import re
from pathlib import Path

UNWRITTEN = re.compile(r'^#error "(Phase \d+, task \d+: .+)"$', re.MULTILINE)


def unwritten_task(source: Path) -> str | None:
    """Return what the file's `#error` says is not written, or None."""
    found = UNWRITTEN.search(source.read_text(encoding="utf-8"))
    return found and found.group(1)
