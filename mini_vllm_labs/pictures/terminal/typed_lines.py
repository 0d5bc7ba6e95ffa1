"""Reads the user's input line by line."""

import sys
from collections.abc import Iterator


def typed_lines(prompt: str) -> Iterator[str]:
    """Yield the lines that the user types, or the lines of a file on standard input, until the input ends."""
    while True:
        if sys.stdin.isatty():
            try:
                yield input(f"\n{prompt}")
            except EOFError:
                return
        elif line := sys.stdin.readline():
            print(f"\n{prompt}{line.rstrip()}")
            yield line
        else:
            return
