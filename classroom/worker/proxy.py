"""A proxy for an object of the peer: each method call sends a message and waits for the answer."""

from collections.abc import Callable
from typing import Any

Ask = Callable[..., Any]


class Proxy:
    """The peer's object with a number."""

    def __init__(self, ask: Ask, number: int) -> None:
        self._ask = ask
        self.number = number

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of the object, or read a property."""
        return self._ask(self.number, method, *arguments, **named)
