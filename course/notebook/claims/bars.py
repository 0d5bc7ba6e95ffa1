"""A few numbers as bars."""

from collections.abc import Mapping

from course.views import svg
from course.views.parts import RIGHT
from course.views.picture import Layer, Picture
from course.views.text import facts

ROW = 26
START, END = 150, RIGHT - 110


def bars(title: str, values: Mapping[str, float], unit: str) -> Picture:
    """Return a bar for each value from 0 on; all have the same unit."""
    most = max(values.values())
    shown = {name: f"{value:,.0f} {unit}".strip() for name, value in values.items()}
    drawn = [svg.text(12, 18, title, class_="mv-strong")]
    for place, (name, value) in enumerate(values.items()):
        y, width = 30 + ROW * place, (END - START) * value / most
        drawn.append(svg.text(START - 10, y + 14, name, class_="mv-end"))
        drawn.append(svg.rect(START, y, width, ROW - 8, class_="mv-faint"))
        drawn.append(svg.text(START + width + 8, y + 14, shown[name]))
    sentence = f"{', '.join(f'{name} {value}' for name, value in shown.items())}."
    return Picture(title, 34 + ROW * len(values), (Layer("bars", svg.joined(drawn)),), sentence, facts(shown.items()))
