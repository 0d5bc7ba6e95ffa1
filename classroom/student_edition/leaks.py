"""The search for code of a solution in the files of a student edition."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

SECRETS = ("solutions/*.py", "tests/alternatives/*.diff", "tests/mutants/**/*.diff")
SEAMS = ("mini_vllm/core/interfaces.py", "mini_vllm/core/electives.py")
MIN_SECRET_CHARACTERS = 41
MAX_IN_A_ROW = 2
MAX_IN_A_FILE = 5


def secret_lines(checkout: Path) -> set[str]:
    """Return the long lines of solutions, mutants and alternatives that no starter and no seam has."""
    public = set[str]()
    for path in (*checkout.glob("labs/*/starter*.py"), *(checkout / name for name in SEAMS)):
        public |= set(long_lines(path.read_text(encoding="utf-8")))
    secret = set[str]()
    for pattern in SECRETS:
        for path in checkout.glob(pattern):
            secret |= set(long_lines(path.read_text(encoding="utf-8")))
    return {line for line in secret - public if not line.startswith(("from ", "import "))}


def leaks(edition: Mapping[str, bytes], secret: Iterable[str]) -> list[str]:
    """Return the files with several secret lines in a row, or many of them.

    One or two are coincidence: the engine and the tests use the same names.
    """
    secret, found = set(secret), []
    for path, content in edition.items():
        longest = total = row = 0
        for line in long_lines(content.decode(errors="replace")):
            row = row + 1 if line in secret else 0
            total, longest = total + (row > 0), max(longest, row)
        if longest > MAX_IN_A_ROW or total > MAX_IN_A_FILE:
            found.append(path)
    return found


def long_lines(text: str) -> Iterator[str]:
    """Yield the lines that are long enough to be distinctive, without indentation, comment and diff marks."""
    for line in text.splitlines():
        normal = " ".join(line.lstrip("+-# \t").split())
        if len(normal) >= MIN_SECRET_CHARACTERS:
            yield normal
