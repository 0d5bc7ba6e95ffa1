"""Draws the mark of a reason: its name on a tint and a pattern that no request uses."""

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.picture import Samples
from mini_vllm_labs.pictures.typeset import first_fitting, text_width

HIGH, SIZE = 15, 12
KINDS = {
    "seats": ("#3b82f6", "columns"),
    "tokens": ("#d97706", "rows"),
    "prompt": ("#d97706", "falling"),
    "blocks": ("#8b5cf6", "grid"),
    "guard": ("#8b5cf6", "falling"),
    "closed": ("#ef4444", "falling"),
    "victim": ("#ef4444", "grid"),
    "queue": ("#8b949e", "rows"),
    "result": ("#8b949e", "falling"),
    "order": ("#8b949e", "columns"),
}
"""Tint and pattern by mark. The marks of the electives share one, and so do those of mistakes."""
ELECTIVE, MISTAKE = ("#10b981", "columns"), ("#ef4444", "rows")
APART = 5


def marked(mark: str, name: str, x: float, y: float, width: float, height: float = HIGH) -> svg.Markup:
    """Draw a box with a mark's tint and pattern, and the name or its first letter if either fits."""
    tint, pattern = KINDS.get(mark, MISTAKE if mark.endswith("!") else ELECTIVE)
    box = svg.rect(x + 0.5, y + 0.5, max(1, width - 1), height - 1, rx=2, fill=tint, fill_opacity=0.22, stroke=tint)
    lines = svg.path(strokes(pattern, x, y, width, height), stroke=tint, stroke_opacity=0.6, fill="none")
    words = first_fitting((name, name[:1].upper()), width - 2, SIZE)
    middle = svg.text(x + width / 2, y + height / 2 + 4.3, words, class_="mv-middle mv-cased")
    return svg.joined([box, lines, *([middle] if words else [])])


def strokes(pattern: str, x: float, y: float, width: float, height: float) -> str:
    """Return the path of a pattern within a box."""
    columns = [f"M{svg.number(x + at)} {y + 1:g}v{height - 2:g}" for at in places(width)]
    rows = [f"M{svg.number(x)} {svg.number(y + at)}h{svg.number(width)}" for at in places(height)]
    if pattern == "falling":
        return "".join(f"M{svg.number(x + at)} {y + 1:g}l{APART} {height - 2:g}" for at in places(width - APART))
    return "".join({"columns": columns, "rows": rows, "grid": columns + rows}[pattern])


def places(length: float) -> list[float]:
    return [float(at) for at in range(APART, int(length), APART)]


def width_of(name: str) -> float:
    return text_width(name, SIZE) + 8


SAMPLES: Samples = [(marked(mark, "", 0, 0, 14, 10), mark) for mark in KINDS]
