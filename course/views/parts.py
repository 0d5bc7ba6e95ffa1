"""The parts that a picture is stacked from: layers with a height, headings, legends, and the sentence at the foot."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from course.views import svg
from course.views.picture import WIDTH, Layer, Picture
from course.views.svg import Markup
from course.views.typeset import text_width, wrap

LEFT = 112
RIGHT = WIDTH - 12
SPAN = RIGHT - LEFT
SENTENCE_SIZE = 13
MOST_LINES = 4
LINE = 18
SMALL = 10.5


@dataclass(frozen=True)
class Part:
    """Some layers, placed as if the part stood alone at the top, and their height."""

    layers: Sequence[Layer]
    height: float


def stacked(parts: Iterable[Part], top: float = 0, prefix: str = "") -> Part:
    """Return parts one below the other as one part; `prefix` keeps layers and moving elements of two runs apart."""
    layers: list[Layer] = []
    y, side = top, {"side": prefix} if prefix else {}
    for part in parts:
        for layer in part.layers:
            layers.append(replace(layer, name=prefix + layer.name, y=layer.y + y, data={**layer.data, **side}))
        y += part.height
    return Part(layers, y)


def page(
    title: str, parts: Iterable[Part], sentence: str, text_alternative: str, num_lines: int | None = None
) -> Picture:
    """Return the picture of the stacked parts with the sentence below them, in room for `num_lines` lines."""
    whole = stacked([*parts, sentence_part(sentence, num_lines or len(sentence_lines(sentence)))])
    return Picture(title, whole.height, tuple(whole.layers), sentence, text_alternative)


def heading(name: str, title: str, y: float, *captions: str) -> Layer:
    """Return the title of a part, in the margin on the left, and small captions below it."""
    small = [
        svg.text(12, y + 14 * line, caption, class_="mv-small mv-faint")
        for line, caption in enumerate(filter(None, captions), start=1)
    ]
    return Layer(f"{name}-heading", svg.joined([svg.text(12, y, title, class_="mv-strong"), *small]))


def headline_part(title: str, figures: str) -> Part:
    """Return the top line: a title on the left, figures on the right."""
    drawn = [svg.text(12, 22, title, class_="mv-title"), svg.text(RIGHT, 22, figures, class_="mv-end mv-faint")]
    return Part([Layer("headline", svg.joined(drawn))], 38)


def sentence_part(sentence: str, num_lines: int) -> Part:
    """Return the sentence under a rule."""
    rule = svg.line(12, 2, RIGHT, 2, class_="mv-rule")
    lines = [
        svg.text(12, 22 + LINE * place, line, font_size=SENTENCE_SIZE)
        for place, line in enumerate(sentence_lines(sentence))
    ]
    return Part([Layer("sentence-rule", rule), Layer("sentence", svg.joined(lines))], LINE * num_lines + 16)


def sentence_lines(sentence: str) -> list[str]:
    """Return a sentence as the lines it takes in a picture."""
    return wrap(sentence, WIDTH - 24, SENTENCE_SIZE, MOST_LINES)


def most_lines(sentences: Iterable[str]) -> int:
    """Return the lines of the longest sentence of a film, for which every picture leaves room."""
    return max((len(sentence_lines(sentence)) for sentence in sentences), default=1)


def legend(samples: Iterable[tuple[Markup, str]], x: float = 0) -> Markup:
    """Return samples of at most 14 x 10 px side by side, each with its name."""
    parts = []
    for sample, name in samples:
        parts.append(svg.group(sample, transform=f"translate({svg.number(x)},0)"))
        parts.append(svg.text(x + 19, 9, name, class_="mv-small mv-faint"))
        x += 29 + text_width(name, SMALL)
    return svg.group(svg.joined(parts), style="pointer-events:none")
