"""Fits text into a width; SVG cannot wrap text, so upper bounds on widths are estimated for common fonts."""

import re
import textwrap
from collections.abc import Iterable

WIDE = set("mwMW@%—…")
REGULAR, BOLD = 0.54, 0.62  # the average letter width in a sentence, relative to the font size
NO_BREAK = "\N{NO-BREAK SPACE}"
NARROW = set("iljtfrI.,:;'|!()[] ")


def text_width(content: str, size: float, bold: bool = False) -> float:
    """Return an estimated upper bound on a text's width, as a multiple of its font size."""
    widths = (0.95 if char in WIDE else 0.4 if char in NARROW else 0.72 if char.isupper() else 0.64 for char in content)
    return sum(widths) * size * (1.1 if bold else 1.0)


def shorten(content: str, room: float, size: float, bold: bool = False) -> str:
    """Return the text if it fits in `room`, otherwise its longest prefix with an ellipsis, or an empty string."""
    if text_width(content, size, bold) <= room:
        return content
    while content and text_width(content + "…", size, bold) > room:
        content = content[:-1]
    return content.rstrip() + "…" if content else ""


def first_fitting(names: Iterable[str], room: float, size: float = 12, bold: bool = False) -> str:
    """Return the first text that fits, or an empty string."""
    return next((name for name in names if text_width(name, size, bold) <= room), "")


def wrap(content: str, room: float, size: float, most_lines: int, bold: bool = False) -> list[str]:
    """Wrap the text into lines that fit in `room`, without breaking lists of numbers; drop lines after `most_lines`."""
    columns = max(10, int(room / (size * (BOLD if bold else REGULAR))))
    kept = re.sub(r" (?=\d)", NO_BREAK, content)
    lines = textwrap.wrap(kept, columns, max_lines=most_lines, placeholder=" …")
    return [line.replace(NO_BREAK, " ") for line in lines]
