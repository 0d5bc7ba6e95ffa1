"""What the signs of a picture mean: drawn below a picture that stands alone, behind a "?" in a widget."""

from collections.abc import Mapping, Sequence
from html import escape

from course.views import svg
from course.views.svg import Markup
from course.views.typeset import text_width

Samples = Sequence[tuple[Markup, str]]
Legend = Mapping[str, Samples]
"""For each part of a picture samples of at most 14 x 10 px, each with its name."""

SIZE, ROW, INDENT, MARGIN = 12, 18, 112, 12


def drawn(legend: Legend, width: float) -> tuple[Markup, float]:
    """Return a legend in lines as wide as a picture, and its height."""
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
    """Return a legend as paragraphs of HTML, which break where they must."""
    return "".join(
        f"<p><b>{escape(title)}</b> "
        + " ".join(
            f'<span><svg class="mv" viewBox="-1 -1 16 12" aria-hidden="true">{sample}</svg> {escape(name)}</span>'
            for sample, name in samples
        )
        + "</p>"
        for title, samples in legend.items()
    )
