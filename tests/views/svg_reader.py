"""Reads a picture the way an SVG reader does."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from xml.etree import ElementTree

from mini_vllm_labs.pictures.picture import Picture

SVG = "{http://www.w3.org/2000/svg}"
# Classes that every text and panel has, and that say nothing about what is drawn.
USUAL = {
    f"mv-{name}" for name in "end faint in-steps in-time ink line link middle panel paper rule strong title".split()
}


def tree(picture: Picture) -> ElementTree.Element:
    return ElementTree.fromstring(picture.svg())


def layers(picture: Picture) -> dict[str, ElementTree.Element]:
    return {str(part.get("data-layer")): part for part in tree(picture).findall(f"{SVG}g")}


def texts(element: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in element.iter(f"{SVG}text")]


def tooltips(element: ElementTree.Element) -> list[str]:
    return [title.text or "" for title in element.iter(f"{SVG}title")]


def described(picture: Picture) -> dict[str, str]:
    """Return the text alternative as a mapping, without its first line."""
    return dict(line.split(": ", 1) for line in picture.text_alternative.splitlines()[1:])


def marked(picture: Picture, name: str, value: str) -> list[ElementTree.Element]:
    return [part for part in tree(picture).iter() if part.get(f"data-{name}") == value]


def is_sound(picture: Picture) -> bool:
    """Return whether a picture is well formed, labelled, within its width, and without ids."""
    root = tree(picture)
    named = root.get("aria-label") == f"{picture.title}. {picture.sentence}"
    within = max(right_edges(root), default=0) <= picture.width + 1
    return named and within and not [part for part in root.iter() if part.get("id")]


def right_edges(root: ElementTree.Element) -> Iterator[float]:
    for layer in root.findall(f"{SVG}g"):
        x = float((re.findall(r"translate\(([\d.]+)", layer.get("transform") or "") or ["0"])[0])
        for box in layer.iter(f"{SVG}rect"):
            yield x + float(box.get("x", 0)) + float(box.get("width", 0))


def count(picture: Picture, name: str) -> int:
    return sum(name in str(part.get("class")).split() for part in tree(picture).iter())


def outline(picture: Picture) -> str:
    """Return all texts in a picture, and what each layer draws, as lines of text.

    A layer's texts come first, then its tooltips, then how often each class and colour occurs in it. Any change to the
    drawing, however small, changes the last line.
    """
    drawn, markup = layers(picture), "".join(layer.markup() for layer in picture.layers)
    return "\n".join(
        [
            f"# {picture.title}",
            picture.sentence,
            "",
            picture.text_alternative.strip(),
            "",
            *(
                f"{layer.name}: {'; '.join(found)}"
                for layer in picture.layers
                if (found := list(said(drawn[layer.name])))
            ),
            *(f"legend, {part}: {', '.join(name for _, name in signs)}" for part, signs in picture.legend.items()),
            f"{picture.width:g} x {picture.height:g} px, {hashlib.sha256(markup.encode()).hexdigest()[:12]}",
            "",
        ]
    )


def numbers(text: str) -> list[int]:
    """Return the numbers after `ranges`."""
    found: list[int] = []
    for word in text.split():
        first, _, last = word.partition("-")
        if first.isdigit():
            found += range(int(first), int(last or first) + 1)
    return found


def said(layer: ElementTree.Element) -> Iterator[str]:
    if words := texts(layer):
        yield " | ".join(words)
    if tips := list(dict.fromkeys(tooltips(layer))):
        yield ", ".join(f'"{tip}"' for tip in tips)
    marks = Counter(mark for part in layer.iter() for mark in (part.get("class") or "").split() if mark not in USUAL)
    marks |= Counter(str(part.get("fill")) for part in layer.iter() if str(part.get("fill")).startswith("#"))
    if marks:
        yield ", ".join(f"{mark} x{times}" for mark, times in sorted(marks.items()))
