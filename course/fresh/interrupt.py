"""An interrupted cell ends in a sentence."""

from collections.abc import Iterator
from contextlib import contextmanager


class Interrupted(KeyboardInterrupt):
    """A cell was interrupted. Notebooks show the message and no traceback."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython prints."""
        return [str(self)]


@contextmanager
def interruptible(what: str) -> Iterator[None]:
    """Name what was stopped when the cell is interrupted. Raises `Interrupted`, which also ends the cells after it."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"Interrupted: {what} stopped, without a result.") from None
