"""What became of the drafts of the step before: a mark for each."""

from collections.abc import Sequence

from course.traces.drafts import STAND_IN, Verdict
from course.traces.run_state import RunInfo
from course.views import svg
from course.views.parts import LEFT, Part, heading, span_of
from course.views.picture import Layer
from course.views.svg import Markup
from course.views.text import counted
from course.views.tiles import tile

HIGH, MARK, APART, GAP, TILE = 20, 14, 16, 12, 30
RIGHT = svg.path("M3 7.5l3 3l5.5 -7", class_="mv-line", stroke_width=2)
WRONG = svg.path("M3.5 3.5l7 7m0 -7l-7 7", class_="mv-alert-line", stroke_width=2)
LEGEND = {"drafts": [(RIGHT, "accepted"), (WRONG, "rejected")]}


def drafts_part(verdicts: Sequence[Verdict], info: RunInfo, width: float) -> Part:
    """Return the requests that had drafts, as many as fit, and which of them the target has accepted."""
    drawn, x, room = list[Markup](), 0.0, span_of(width)
    judged = [verdict for verdict in verdicts if verdict.drafts and verdict.sampled]
    for place, verdict in enumerate(judged):
        wide = TILE + 4 + APART * len(verdict.drafts)
        if x + wide > room - (80 if place + 1 < len(judged) else 0):
            drawn.append(svg.text(x, HIGH / 2 + 4, f"and {len(judged) - place} more", class_="mv-faint"))
            break
        drawn.append(svg.group(one_request(verdict, info), transform=f"translate({svg.number(x)},0)"))
        x += wide + GAP
    if not drawn:
        drawn.append(svg.text(0, HIGH / 2 + 4, "none verified in this step", class_="mv-faint"))
    layers = [heading("drafts", "drafts", HIGH / 2 + 4), Layer("drafts", svg.joined(drawn), LEFT)]
    return Part(layers, HIGH + 8, LEGEND)


def one_request(verdict: Verdict, info: RunInfo) -> Markup:
    """Return a request's tile and its drafts in their order."""
    index, label = info.index(verdict.request_id), info.label(verdict.request_id)
    what = "place for a draft" if STAND_IN in verdict.drafts else "draft"
    marks = [
        svg.group(
            svg.rect(0.5, 0.5, MARK - 1, MARK - 1, rx=3, class_="mv-panel"),
            RIGHT if place < verdict.num_accepted else WRONG,
            transform=f"translate({TILE + 4 + APART * place},3)",
        )
        for place in range(len(verdict.drafts))
    ]
    return svg.group(
        svg.tooltip(f"{label}: {verdict.num_accepted} of {counted(len(verdict.drafts), what)} accepted"),
        tile(index, label, 0, 0, TILE, HIGH),
        *marks,
        data_request=str(index),
        class_="mv-link",
    )
