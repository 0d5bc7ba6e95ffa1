"""A part of the picture: its layers, as if it stood alone at the top, and how high it is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from course.views import svg
from course.views.picture import WIDTH, Layer

LEFT = 112
RIGHT = WIDTH - 12
SPAN = RIGHT - LEFT


@dataclass(frozen=True)
class Part:
    """Some layers and their height."""

    layers: Sequence[Layer]
    height: float


def stacked(parts: Iterable[Part], top: float = 0, prefix: str = "") -> Part:
    """Return parts one below the other as one part; `prefix` keeps the layers of two runs apart."""
    layers: list[Layer] = []
    y = top
    for part in parts:
        layers += [replace(layer, name=prefix + layer.name, y=layer.y + y) for layer in part.layers]
        y += part.height
    return Part(layers, y)


def heading(name: str, words: str, y: float, caption: str = "") -> Layer:
    """Return the name of a part, in the gutter on the left, and a small line below it."""
    small = [svg.text(12, y + 14, caption, class_="mv-small mv-faint")] if caption else []
    return Layer(f"{name}-heading", svg.joined([svg.text(12, y, words, class_="mv-strong"), *small]))
