"""A stand-in for what is on the other end: each method is a message there and its answer back."""

from collections.abc import Callable
from typing import Any

Ask = Callable[..., Any]


class Proxy:
    """What is on the other end under a number."""

    def __init__(self, ask: Ask, number: int) -> None:
        self._ask = ask
        self.number = number

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method there, or read a property."""
        return self._ask(self.number, method, *arguments, **named)
