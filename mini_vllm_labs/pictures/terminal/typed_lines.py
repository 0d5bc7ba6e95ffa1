"""Reads the user's input line by line."""

import sys
from collections.abc import Iterator

from rich.console import Console


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


def typed_number(console: Console, typed: Iterator[str], what: str, most: int, *, may_skip: bool = False) -> str | None:
    """Return the next line that is a whole number, or None after /quit or at the end of the input.

    The number must be from 1 to `most`; if `most` is 0, any whole number is accepted. With `may_skip`, an empty line is
    also returned. Any other line is rejected with an explanation, and the next line is read.
    """
    for line in typed:
        text = line.strip()
        if text == "/quit":
            return None
        if (may_skip and not text) or (text.isdecimal() and (not most or 1 <= int(text) <= most)):
            return text
        legal = f"number from 1 to {most}" if most else "whole number"
        console.print(f"{what} is a {legal}, got {text!r}; /quit ends it", style="dim", markup=False)
    return None
