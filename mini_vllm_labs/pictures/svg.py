"""Builds SVG text from typed parts.

A part is a `Markup`; all other text is escaped. Hatch patterns and arrowheads are drawn as paths rather than referenced
by id, so that any number of pictures can share a page.
"""

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from html import escape
from typing import NewType

Markup = NewType("Markup", str)
Value = str | float | None

# Just one of these characters makes a browser reject the whole picture.
NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def number(value: float) -> str:
    """Format a length with at most two decimals and without trailing zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def plain(text: str) -> str:
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


@lru_cache(2048)  # a film uses a few colours and classes several hundred thousand times
def quoted(value: str) -> str:
    return escape(plain(value))


@cache
def hyphened(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def element(name: str, *children: Markup, **attributes: Value) -> Markup:
    """Return an element. `class_` becomes `class`, and other underscores become hyphens; attributes that are None are
    omitted."""
    written = "".join(
        f' {hyphened(key)}="{quoted(value) if isinstance(value, str) else number(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>")


def group(*children: Markup, **attributes: Value) -> Markup:
    return element("g", *children, **attributes)


def joined(parts: Iterable[Markup]) -> Markup:
    return Markup("".join(parts))


def at(x: float, y: float) -> str:
    return f"translate({number(x)},{number(y)})"


def rect(x: float, y: float, width: float, height: float, **attributes: Value) -> Markup:
    """Return a rectangle with its upper left corner at (x, y)."""
    # A negative size is an error in SVG, so a share of zero tokens must have a width of zero.
    return element("rect", x=x, y=y, width=max(0, width), height=max(0, height), **attributes)


def text(x: float, y: float, content: str, **attributes: Value) -> Markup:
    """Return text whose baseline starts at (x, y)."""
    return element("text", Markup(escape(plain(content), quote=False)), x=x, y=y, **attributes)


def path(data: str, **attributes: Value) -> Markup:
    return element("path", d=data, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: Value) -> Markup:
    return path(f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}", **attributes)


def tooltip(content: str) -> Markup:
    """Return a `<title>`, which serves as its parent's tooltip and is read by screen readers."""
    return element("title", Markup(escape(plain(content), quote=False)))


def hatch(x: float, y: float, width: float, height: float, spacing: float = 6, **attributes: Value) -> Markup:
    """Fill a rectangle with slanted lines, clipped at its edges."""
    strokes = []
    for k in range(1, int((width + height) / spacing) + 1):
        reach = k * spacing
        left, right = max(0.0, reach - height), min(reach, width)
        if right > left:
            start = f"M{number(x + left)} {number(y + reach - left)}"
            strokes.append(f"{start}L{number(x + right)} {number(y + reach - right)}")
    return path("".join(strokes), class_="mv-hatch", **attributes) if strokes else Markup("")
