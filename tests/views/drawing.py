"""A picture as a reader of the SVG finds it."""

from xml.etree import ElementTree

from course.views.picture import Picture

SVG = "{http://www.w3.org/2000/svg}"


def tree(picture: Picture) -> ElementTree.Element:
    return ElementTree.fromstring(picture.svg())


def layers(picture: Picture) -> dict[str, ElementTree.Element]:
    """Return the layers of the drawing by name."""
    return {str(part.get("data-layer")): part for part in tree(picture).findall(f"{SVG}g")}


def texts(element: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in element.iter(f"{SVG}text")]


def tooltips(element: ElementTree.Element) -> list[str]:
    return [title.text or "" for title in element.iter(f"{SVG}title")]


def described(picture: Picture) -> dict[str, str]:
    """Return the text alternative as a mapping, its first line not among it."""
    return dict(line.split(": ", 1) for line in picture.text_alternative.splitlines()[1:])


def marked(picture: Picture, name: str, value: str) -> list[ElementTree.Element]:
    """Return the elements with `data-name="value"`."""
    return [part for part in tree(picture).iter() if part.get(f"data-{name}") == value]


def is_sound(picture: Picture) -> bool:
    """Return whether a picture is well formed, narrow enough, labelled with its title and sentence, and without ids."""
    root = tree(picture)
    named = root.get("aria-label") == f"{picture.title}. {picture.sentence}"
    return named and picture.width <= 720 and not [part for part in root.iter() if part.get("id")]
