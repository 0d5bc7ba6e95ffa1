"""Makes texts from untrusted code safe to print, to write and to use in a table."""

MAX_TEXT = 4000


def printable(text: str, limit: int = MAX_TEXT) -> str:
    """Return at most `limit` characters, with "?" for control characters, direction marks and lone surrogates."""
    if len(text) <= limit and text.isprintable():
        return text  # fast path: a correct submission sends a million texts, and nearly all of them are printable
    shown = "".join(
        char if char.isprintable() or char == "\n" else " " if char == "\t" else "?" for char in text[:limit]
    )
    return shown if len(text) <= limit else f"{shown} ..."


def one_line(text: str, limit: int = 200) -> str:
    """Return printable text without line breaks."""
    return printable(text.replace("\n", "?"), limit)
