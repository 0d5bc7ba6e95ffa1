"""Mutants are written as small diffs; this module reads them and applies them to the reference.

    # hands out the null block
    -        self.free_queue = FreeKVCacheBlockQueue(self.blocks[1:])
    +        self.free_queue = FreeKVCacheBlockQueue(self.blocks)

A line that begins with `#` starts a mutant and names its mistake; a line below it that begins with `?` is its optional
hint. Each of the following lines is removed from the reference (`-`), added to it (`+`), or context (a space). `@@`
separates changes at different locations. The removed lines and the context must occur in the reference exactly once, as
whole lines. A diff has no line numbers, so it survives changes elsewhere, but fails as soon as its own lines change.
Comment lines are ignored in the reference and in the diffs.
"""

from dataclasses import dataclass
from itertools import groupby, pairwise


def without_comments(text: str) -> str:
    """Return a module without the lines that contain only a comment."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#"))


class DiffError(ValueError):
    """Raised if a diff cannot be parsed, or no longer applies to the reference."""


@dataclass(frozen=True, slots=True)
class Place:
    """One change: the lines of the reference, and the lines that replace them."""

    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Diff:
    """One named mistake with its hint."""

    name: str
    hint: str
    places: tuple[Place, ...]

    def apply(self, reference: str) -> str:
        """Return the reference with the mistake in it. Raises `DiffError` if the text of a change does not occur
        exactly once."""
        lines = reference.splitlines()
        found: list[tuple[int, Place]] = []
        for place in self.places:
            size = len(place.old)
            starts = [at for at in range(len(lines) - size + 1) if tuple(lines[at : at + size]) == place.old]
            if len(starts) != 1:
                old = "\n".join(place.old)
                raise DiffError(
                    f"{self.name!r}: these lines occur {len(starts)} times in the reference, not once:\n{old}"
                )
            found.append((starts[0], place))
        found.sort(key=lambda pair: pair[0], reverse=True)
        for (later, _), (start, place) in pairwise(found):
            if start + len(place.old) > later:
                raise DiffError(f"{self.name!r}: two of its changes overlap")
        for start, place in found:
            lines[start : start + len(place.old)] = place.new
        return "\n".join(lines) + "\n"


def read_diffs(text: str) -> list[Diff]:
    """Return the mutants of a file. Raises `DiffError` with the line that cannot be read."""
    diffs: list[Diff] = []
    name, hint, body = "", "", list[str]()
    for number, line in enumerate([*text.splitlines(), "# "], start=1):
        if line.startswith("# "):
            if name:
                diffs.append(Diff(name, hint, _places(name, body)))
            name, hint, body = line[2:].strip(), "", []
        elif line.startswith("? ") and name and not hint and not body:
            hint = line[2:].strip()
        elif line == "@@" or line[:1] in ("-", "+", " "):
            body.append(line)
        elif line:
            raise DiffError(f"line {number} must start with '# ', '? ', '@@', '-', '+' or a space: {line!r}")
    return diffs


def _places(name: str, body: list[str]) -> tuple[Place, ...]:
    places = []
    for is_separator, group in groupby(body, key="@@".__eq__):
        if is_separator:
            continue
        lines = [line for line in group if not line[1:].lstrip().startswith("#")]
        old = tuple(line[1:] for line in lines if line[0] != "+")
        new = tuple(line[1:] for line in lines if line[0] != "-")
        if not old or old == new:
            raise DiffError(f"{name!r}: a change must alter something, and must include the lines that it replaces")
        places.append(Place(old, new))
    if not places:
        raise DiffError(f"{name!r} changes nothing")
    return tuple(places)
