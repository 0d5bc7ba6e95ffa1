"""Shown in a cell when there is no result."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any, TypeGuard


@dataclass(frozen=True)
class Notice:
    """Shown instead of a result: a task is not written yet, or the engine failed. False in an `if`."""

    title: str
    text: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"{self.title}\n{self.text}"

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        frame = "border-left:4px solid #E69F00;padding:2px 12px;max-width:720px"
        page = (
            f'<div role="note" style="{frame}"><strong>{escape(self.title)}</strong>'
            f'<pre style="white-space:pre-wrap;margin:4px 0">{escape(self.text)}</pre></div>'
        )
        return {"text/html": page, "text/plain": str(self)}


def is_notice(value: object) -> TypeGuard[Notice]:
    """Return whether a result is a `Notice`."""
    return isinstance(value, Notice)


def show(view: Callable[..., Any], *results: Any, **options: Any) -> Any:
    """Return `view(*results, **options)`, or the first of the results that is a `Notice`."""
    for result in results:
        if is_notice(result):
            return result
    return view(*results, **options)
