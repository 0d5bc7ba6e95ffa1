"""Defines a picture: named layers of SVG, a sentence, the same facts as text, and a legend."""

import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.svg import Markup, element, group, joined, number, rect, tooltip
from mini_vllm_labs.pictures.typeset import text_width

Samples = Sequence[tuple[Markup, str]]
Legend = Mapping[str, Samples]  # maps each part of a picture to samples of at most 14 x 10 px and their names

SIZE, ROW, INDENT, MARGIN = 12, 18, 112, 12


def drawn(legend: Legend, width: float) -> tuple[Markup, float]:
    """Draw a legend in lines as wide as a picture, and also return the legend's height."""
    parts, y = list[Markup](), 6.0
    for title, samples in legend.items():
        parts.append(svg.text(MARGIN, y + 10, title, class_="mv-faint"))
        x = float(INDENT)
        for sample, name in samples:
            end = x + 19 + text_width(name, SIZE)
            if end > width - MARGIN and x > INDENT:
                x, y, end = INDENT, y + ROW, end - x + INDENT
            named = svg.text(19, 10, name, class_="mv-faint")
            parts.append(svg.group(sample, named, transform=f"translate({svg.number(x)},{svg.number(y)})"))
            x = end + 12
        y += ROW
    return svg.joined(parts), y + 2 if legend else 0


def html(legend: Legend) -> str:
    """Return a legend as HTML paragraphs, which wrap if necessary."""
    return "".join(
        f"<p><b>{escape(title)}</b> "
        + " ".join(
            f'<span><svg class="mv" viewBox="-1 -1 16 12" aria-hidden="true">{sample}</svg> {escape(name)}</span>'
            for sample, name in samples
        )
        + "</p>"
        for title, samples in legend.items()
    )


WIDTH = 720
MAX_WIDTH = 1100
PAGE_MARGIN = 80
LIGHT = ' style="color-scheme:light"'
FOLDER = Path(__file__).parent

# If scripts can run, the picture is moved out of its `<img>` into the page, where tooltips and the notebook's theme
# work.
INLINE = (
    "(me=>{const box=me.parentNode,image=box.querySelector('img'),narrow=box.querySelector('source');"
    "const src=narrow&&box.clientWidth&&box.clientWidth<+image.dataset.width?narrow.srcset:image.src;"
    "const bytes=Uint8Array.from(atob(src.split(',')[1]),c=>c.charCodeAt(0));"
    "(narrow?.parentNode??image).outerHTML=new TextDecoder().decode(bytes)})(document.currentScript)"
)


@cache  # each frame of an animation reads the style separately
def read_asset(name: str) -> str:
    """Return the text of a file in this module's folder."""
    return (FOLDER / name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Layer:
    """A part of a picture that can change independently: `content` drawn at (x, y).

    `data` becomes `data-...` attributes, for example `{"block": "17"}`.
    """

    name: str
    content: Markup
    x: float = 0
    y: float = 0
    data: Mapping[str, str] = field(default_factory=dict)

    def markup(self) -> Markup:
        data = {f"data_{key}": value for key, value in self.data.items()}
        place = f"translate({number(self.x)},{number(self.y)})" if self.x or self.y else None
        return group(self.content, data_layer=self.name, transform=place, **data)


@dataclass(frozen=True)
class Picture:
    """A finished picture, at most 1,100 px wide; `text_alternative` states every fact in it as plain text.

    `title` names the picture, and `sentence` states its most interesting fact. On the scale `time`, parts with the
    class `mv-in-time` are shown instead of those with `mv-in-steps`. `narrow` is the same picture for a narrower page.
    """

    title: str
    height: float
    layers: tuple[Layer, ...]
    sentence: str
    text_alternative: str
    width: float = WIDTH
    scale: str = "steps"
    legend: Legend = field(default_factory=dict)
    narrow: "Picture | None" = None

    def __post_init__(self) -> None:
        if self.width > MAX_WIDTH:
            raise ValueError(f"width is {self.width}, but a picture can be at most {MAX_WIDTH} px wide")
        names = Counter(layer.name for layer in self.layers)
        if twice := {name for name, count in names.items() if count > 1}:
            raise ValueError(f"layers must have different names, but these are used twice: {', '.join(sorted(twice))}")

    def svg(self, *, with_legend: bool = True) -> Markup:
        """Return the whole picture as one element, for use alone or in a page."""
        below, more = drawn(self.legend if with_legend else {}, self.width)
        height = self.height + more
        return element(
            "svg",
            tooltip(self.title),
            element("desc", Markup(escape(self.sentence))),
            element("style", Markup(read_asset("picture.css"))),
            rect(0, 0, self.width, height, class_="mv-paper"),
            joined(layer.markup() for layer in self.layers),
            *([group(below, transform=f"translate(0,{number(self.height)})")] if more else []),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {number(self.width)} {number(height)}",
            width=self.width,
            height=height,
            class_="mv mv-time" if self.scale == "time" else "mv",
            role="img",
            aria_label=f"{self.title}. {self.sentence}",
        )

    def image(self) -> str:
        """Return the picture as an HTML `<img>` with its data, which works even if scripts and SVG are not trusted.

        If the page declares no colour scheme, the background is white, even if the system is in dark mode. JupyterLab
        drops the style of untrusted output, so there the picture follows JupyterLab's theme.
        """
        alt = escape(f"{self.title}. {self.sentence}")
        image = f'<img src="{self.data_url()}" alt="{alt}" data-width="{number(self.width)}"{LIGHT}>'
        if self.narrow is None:
            return image
        room = number(self.width + PAGE_MARGIN)
        narrow = f'<source media="(max-width:{room}px)" srcset="{self.narrow.data_url()}">'
        return f"<picture>{narrow}{image}</picture>"

    def data_url(self) -> str:
        return f"data:image/svg+xml;base64,{base64.b64encode(self.svg().encode()).decode()}"

    def html(self) -> str:
        return f"{self.image()}{self.details()}"

    def details(self) -> str:
        return f"<details><summary>As text</summary><pre>{escape(self.text_alternative)}</pre></details>"

    def bundle(self) -> dict[str, Any]:
        """Return the picture in the formats that every notebook front end supports."""
        return {"image/svg+xml": str(self.svg()), "text/html": self.html(), "text/plain": self.text_alternative}

    def __repr__(self) -> str:
        return f"Picture({json.dumps(self.title)})"

    def in_page(self, *, with_text: bool = True) -> str:
        """Return HTML whose script, if scripts run, moves the picture into the page."""
        return f"<div>{self.html() if with_text else self.image()}<script>{INLINE}</script></div>"

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, Any]:
        return self.bundle() | {"text/html": self.in_page()}
