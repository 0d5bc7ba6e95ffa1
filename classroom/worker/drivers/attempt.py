"""What all drivers need."""

from collections.abc import Callable, Sequence
from typing import Any

Result = list[Any]
Operation = Sequence[Any]


def attempt(action: Callable[[], Any]) -> Any:
    """Return what an action gives, or ("raised", name) if it raises what a caller may expect."""
    try:
        return action()
    except NotImplementedError:
        raise
    except (ValueError, IndexError, KeyError) as error:
        return ("raised", type(error).__name__)
