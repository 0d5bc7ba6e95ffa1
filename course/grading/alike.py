"""One mistake, one message: which failures have one cause, and a line about those that are not shown."""

import re
from collections.abc import Sequence

MAX_NAMES = 6
NUMBERS = re.compile(r"-?\d+")
VALUES = re.compile(r":|-?\d")  # where the values of an exception's message begin
UNUSABLE = re.compile(r"^The test could not go on after this answer of yours \((\w+).*\n  ([\w.]+)", re.MULTILINE)
PLACE = re.compile(r"^  labs/phase\d+_\w+/starter\.py:\d+", re.MULTILINE)


def mistake_in(text: str) -> str:
    """Return what two failures have in common if they have one cause.

    That is the exception and its place, or the exception and the call after whose answer a test could not go on, or
    rule and question.
    """
    if answer := UNUSABLE.search(text):
        return f"{answer[1]} {answer[2]}"
    if place := PLACE.search(text):
        error = next((line for line in text[: place.start()].splitlines()[::-1] if line.strip()), "")
        return f"{VALUES.split(error)[0]} {place[0]}"
    lines = text.strip().splitlines() or [""]
    return NUMBERS.sub("n", f"{lines[0]} {lines[-1]}")


def alike_line(tests: Sequence[str]) -> str:
    """Return a line about tests, given by their ids, that fail like one that is shown."""
    names = [test.rpartition("::")[2] for test in tests]
    count = "One more test fails" if len(names) == 1 else f"{len(names)} more tests fail"
    return f"{count} like this: {', '.join(names[:MAX_NAMES])}" + (" ..." if len(names) > MAX_NAMES else "")
