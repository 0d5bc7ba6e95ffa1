"""Shows notices and wrapped text in a cell, because JupyterLab breaks printed lines at any character."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any, TypeVar

from mini_vllm_labs.notebook.recorded_mark import first_mark, marked_text

T = TypeVar("T")
WORDS_STYLE = "white-space:pre-wrap;word-break:normal;overflow-wrap:break-word;max-width:720px;margin:0"


@dataclass(frozen=True)
class Notice:
    """A text shown instead of a result because a task is unwritten or the engine failed. Falsy.

    `line_to_paste` is code that stays on one line.
    """

    title: str
    text: str
    line_to_paste: str = ""

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return "\n".join(filter(None, [self.title, self.text, self.line_to_paste]))

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": str(self)}

    def html(self) -> str:
        frame = "border-left:4px solid #E69F00;padding:2px 12px;max-width:720px"
        return (
            f'<div role="note" style="{frame}"><strong>{escape(self.title)}</strong>'
            f'<pre style="white-space:pre-wrap;word-break:normal;margin:4px 0">{escape(self.text)}</pre>'
            f"{self._pasted()}</div>"
        )

    def _pasted(self) -> str:
        if not self.line_to_paste:
            return ""
        style = "white-space:pre;overflow-x:auto;margin:4px 0;padding:4px 8px;border:1px solid #8888;user-select:all"
        return f'<pre tabindex="0" style="{style}">{escape(self.line_to_paste)}</pre>'


class Remark(Notice):
    """A one-line notice that requires no action, for example because a run was not recorded."""

    def html(self) -> str:
        return f'<p role="note" style="max-width:720px;opacity:.8">{escape(self.title)}. {escape(self.text)}</p>'


def show(view: Callable[..., T], *results: Any, **options: Any) -> T | Notice:
    """Return `view(*results, **options)`, or the first `Notice` among the results."""
    for result in results:
        if isinstance(result, Notice):
            return result
    shown = view(*results, **options)
    return type(shown)(marked_text(shown, first_mark(results))) if isinstance(shown, str) else shown


class Words(str):
    """A text that a cell displays as a paragraph with its line breaks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        return {"text/html": f'<pre style="{WORDS_STYLE}">{escape(self)}</pre>', "text/plain": str(self)}


def say(text: str) -> None:
    """Show a text in the cell, unless it is empty."""
    if text:
        # only the kernel needs it, and a panel's new process starts faster without it
        from IPython.display import display

        display(Words(text))  # type: ignore[no-untyped-call]
