"""Text that a cell wraps between words; printed text breaks anywhere in a narrow JupyterLab."""

from html import escape

STYLE = "white-space:pre-wrap;word-break:normal;overflow-wrap:break-word;max-width:720px;margin:0"


class Words(str):
    """A text that shows itself as a paragraph with its line breaks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        return {"text/html": f'<pre style="{STYLE}">{escape(self)}</pre>', "text/plain": str(self)}


def say(text: str) -> None:
    """Show a text in the cell, unless it is empty."""
    if text:
        from IPython.display import display  # only the kernel shows: without it a panel's new process starts faster

        display(Words(text))  # type: ignore[no-untyped-call]
