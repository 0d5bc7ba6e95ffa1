"""What all drivers need."""

from collections.abc import Callable, Sequence
from typing import Any

Result = list[Any]
Operation = Sequence[Any]


def attempt(action: Callable[[], Any]) -> Any:
    """Return the result of an action, or ("raised", name) for an exception that its contract allows."""
    try:
        return action()
    except NotImplementedError:
        raise
    except (ValueError, IndexError, KeyError) as error:
        return ("raised", type(error).__name__)
