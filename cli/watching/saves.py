"""Which files were saved: their times, sizes and places on the disk are compared several times a second.

An editor that saves by renaming leaves no file for a moment, and one that writes in pieces half of one. So a change
counts once the file has been quiet for a while.
"""

from collections.abc import Sequence
from pathlib import Path

QUIET_SECONDS = 0.15
MISSING_SECONDS = 1.0  # then it is deleted, and not between two steps of a save
Stamp = tuple[int, int, int] | None


def stamp(path: Path) -> Stamp:
    """Return what changes when a file is saved, None if there is none."""
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_size, seen.st_ino


class Saves:
    """Watches some files; a moment is in seconds of any clock."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._known = {path: stamp(path) for path in paths}
        self._changing: dict[Path, tuple[Stamp, float]] = {}

    def poll(self, moment: float) -> list[Path]:
        """Return the files that were saved or deleted since the last call and have been quiet since then."""
        saved = []
        for path, known in self._known.items():
            now = stamp(path)
            seen, since = self._changing.get(path, (known, moment))
            if now == known:
                self._changing.pop(path, None)
            elif now != seen:
                self._changing[path] = now, moment
            elif moment - since >= (MISSING_SECONDS if now is None else QUIET_SECONDS):
                saved.append(path)
        for path in saved:
            self._known[path] = self._changing.pop(path)[0]
        return saved
