"""Stacks parts into a picture: layers with a height, headings, and the sentence at the bottom."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.picture import WIDTH, Layer, Legend, Picture, Samples
from mini_vllm_labs.pictures.typeset import wrap

WIDTHS = (460, WIDTH, 1000)  # the widths in px at which a film is drawn; a page shows the widest that fits
LEFT = 112
MARGIN = 12
SENTENCE_SIZE = 13
MAX_LINES, MAX_NARROW_LINES = 4, 7
LINE_HEIGHT = 18
NARROW, FIGURE_LINES = 640, 2


def span_of(width: float) -> float:
    """Return the width between the row headings and the right margin of a picture."""
    return width - LEFT - MARGIN


@dataclass(frozen=True)
class Part:
    """Layers positioned as if the part were alone at the top, with their height and a legend of their symbols."""

    layers: Sequence[Layer]
    height: float
    legend: Legend = field(default_factory=dict)


def stacked(parts: Iterable[Part], prefix: str = "") -> Part:
    """Stack parts into one part; `prefix` distinguishes the layers and moving elements of two runs."""
    layers: list[Layer] = []
    y, legend, side = 0.0, dict[str, Samples](), {"side": prefix} if prefix else {}
    for part in parts:
        for layer in part.layers:
            layers.append(Layer(prefix + layer.name, layer.content, layer.x, layer.y + y, {**layer.data, **side}))
        y += part.height
        legend |= part.legend
    return Part(layers, y, legend)


def side_by_side(parts: Sequence[Part], width: float) -> Part:
    layers = [replace(layer, x=layer.x + k * width) for k, part in enumerate(parts) for layer in part.layers]
    legend = {title: samples for part in parts for title, samples in part.legend.items()}
    return Part(layers, max(part.height for part in parts), legend)


def page(
    title: str, parts: Iterable[Part], sentence: str, text: str, width: float = WIDTH, num_lines: int | None = None
) -> Picture:
    """Return the picture of the stacked parts with the sentence below, which has room for `num_lines` lines."""
    lines = sentence_lines(sentence, width)
    rule = svg.line(MARGIN, 2, width - MARGIN, 2, class_="mv-rule")
    drawn = [svg.text(MARGIN, 20 + LINE_HEIGHT * n, line, font_size=SENTENCE_SIZE) for n, line in enumerate(lines)]
    layers = [Layer("sentence-rule", rule), Layer("sentence", svg.joined(drawn))]
    whole = stacked([*parts, Part(layers, LINE_HEIGHT * (num_lines or len(lines)) + 10)])
    return Picture(title, whole.height, tuple(whole.layers), sentence, text, width, legend=whole.legend)


def heading(name: str, title: str, y: float, *captions: str) -> Layer:
    """Draw the title of a part in the left margin, with small captions below it."""
    small = [
        svg.text(12, y + 14 * line, caption, class_="mv-faint")
        for line, caption in enumerate(filter(None, captions), start=1)
    ]
    return Layer(f"{name}-heading", svg.joined([svg.text(12, y, title, class_="mv-strong"), *small]))


def headline_part(title: str, figures: str, width: float) -> Part:
    """Draw the top line: a title on the left, and figures on the right.

    In a narrow picture, the figures go below the title.
    """
    named = svg.text(MARGIN, 20, title, class_="mv-title")
    if width >= NARROW:
        drawn = [named, svg.text(width - MARGIN, 20, figures, class_="mv-end mv-faint")]
        return Part([Layer("headline", svg.joined(drawn))], 32)
    lines = enumerate(wrap(figures, width - 2 * MARGIN, 12, FIGURE_LINES))
    drawn = [named, *(svg.text(MARGIN, 37 + 15 * place, line, class_="mv-faint") for place, line in lines)]
    return Part([Layer("headline", svg.joined(drawn))], 32 + 15 * FIGURE_LINES)


def sentence_lines(sentence: str, width: float) -> list[str]:
    most = MAX_LINES if width >= NARROW else MAX_NARROW_LINES
    return wrap(sentence, width - 2 * MARGIN, SENTENCE_SIZE, most)


def most_lines(sentences: Iterable[str], width: float) -> int:
    """Return the number of lines in a film's longest sentence; every picture leaves room for that many."""
    return max((len(sentence_lines(sentence, width)) for sentence in sentences), default=1)
