"""Writes a picture's text alternative: its facts as `key: value` lines."""

from collections.abc import Iterable


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Return a `key: value` line for each pair, with `none` for an empty value."""
    return "\n".join(f"{key}: {'none' if value == '' else value}" for key, value in pairs)


def counted(number: int, thing: str) -> str:
    """Return a count with its noun, such as `1 token`, `2,000 tokens`."""
    return f"{number:,} {thing}{'s' * (number != 1)}"


def ordinal(number: int) -> str:
    """Return the ordinal of a number, such as `1st`, `2nd`, `11th`."""
    last = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{'th' if number % 100 in (11, 12, 13) else last}"


def spaced(items: Iterable[object], most: int | None = None) -> str:
    """Join items with spaces; truncate a list longer than `most`."""
    shown = list(map(str, items))
    if most is None or len(shown) <= most:
        return " ".join(shown)
    return f"{' '.join(shown[:most])} and {len(shown) - most} more"


def ranges(numbers: Iterable[int]) -> str:
    """Join numbers in order, shortening each run of at least three consecutive numbers to `first-last`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else spaced(run) for run in runs)
