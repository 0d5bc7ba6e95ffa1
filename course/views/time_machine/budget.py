"""The token budget of a step: how many tokens each request got."""

from course.traces.run_state import RunState
from course.views import svg
from course.views.parts import LEFT, RIGHT, SPAN, Part, heading, legend
from course.views.picture import Layer
from course.views.svg import Markup
from course.views.text import counted
from course.views.tiles import tile
from course.views.typeset import text_width

BAR = SPAN - 84
HIGH = 26
LEAST = 4
SAMPLES = [
    (svg.group(svg.hatch(0, 0, 14, 10, 5), svg.rect(0, 0, 14, 10), class_="mv-line"), "prefill"),
    (svg.rect(0, 0, 14, 10, class_="mv-ink", opacity=0.7), "decode"),
]


def budget_part(state: RunState, *, with_legend: bool = True) -> Part:
    """Return the bar: each share in order, prefill hatched, decode solid, the unused rest empty."""
    assert state.record is not None
    total, budget = state.record["total"], state.info.token_budget
    shares, spent, x = [], 0, 0.0
    for share in state.record["scheduled"]:
        spent += share["n"]
        end = min(float(BAR), max(x + LEAST, BAR * spent / budget))
        shares.append(one_share(state, share["id"], share["n"], state.is_decode(share), x, end - x))
        x = end
    layers = [
        heading("budget", "token budget", HIGH / 2 + 4),
        Layer("budget-ground", svg.rect(0, 0, BAR, HIGH, rx=3, class_="mv-panel"), x=LEFT),
        Layer("budget", svg.joined(shares), x=LEFT),
        Layer("budget-figure", svg.text(RIGHT, HIGH / 2 + 4, f"{total} of {budget}", class_="mv-end")),
    ]
    if not with_legend:
        return Part(layers, HIGH + 12)
    return Part([*layers, Layer("budget-legend", legend(SAMPLES), x=LEFT, y=HIGH + 6)], HIGH + 28)


def one_share(state: RunState, request_id: str, num_tokens: int, decode: bool, x: float, width: float) -> Markup:
    """Return one request's share, with its label and tokens as far as they fit."""
    index, label = state.info.index(request_id), state.info.label(request_id)
    full, kind = f"{label} {num_tokens}", "decode" if decode else "prefill"
    shown = full if text_width(full, 12, bold=True) + 6 <= width else label
    return svg.group(
        svg.tooltip(f"{label}: {counted(num_tokens, 'token')}, {kind}"),
        tile(index, shown, x + 0.5, 0, width - 1, HIGH, hatched=not decode),
        data_request=str(index),
        data_kind=kind,
        class_="mv-link",
    )
