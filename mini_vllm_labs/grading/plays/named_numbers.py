"""Finds the numbers in a text in various notations."""

import re

SEPARATORS = re.compile(r"(?<=\d)[,_'\u2009\u202f](?=\d)")
NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*(%?)")


def numbers_named(message: str) -> set[float]:
    """Return the numbers in a text, without thousands separators; 50% counts as both 50 and 0.5."""
    found: set[float] = set()
    for digits, percent in NUMBER.findall(SEPARATORS.sub("", message)):
        found |= {float(digits), float(digits) / 100} if percent else {float(digits)}
    return found
