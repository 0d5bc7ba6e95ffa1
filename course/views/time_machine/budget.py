"""The token budget of a step: who got how much of it."""

from course.traces.run_state import RunState
from course.views import svg
from course.views.picture import Layer
from course.views.svg import Markup
from course.views.tiles import tile
from course.views.time_machine.parts import LEFT, RIGHT, SPAN, Part, heading
from course.views.typeset import text_width

BAR = SPAN - 84
HIGH = 26
LEAST = 4


def budget_part(state: RunState, *, with_legend: bool = True) -> Part:
    """Return the bar: each share in order, prefill hatched, decode solid, what is left empty."""
    assert state.record is not None
    total, budget = state.record["total"], state.info.token_budget
    shares, spent, x = [], 0, 0.0
    for share in state.record["scheduled"]:
        spent += share["n"]
        end = min(float(BAR), max(x + LEAST, BAR * spent / budget))
        shares.append(one_share(state, share["id"], share["n"], state.is_decode(share), x, end - x))
        x = end
    figure = svg.text(RIGHT, HIGH / 2 + 4, f"{total} of {budget}", class_="mv-end")
    ground = svg.rect(0, 0, BAR, HIGH, rx=3, class_="mv-panel")
    layers = [
        heading("budget", "token budget", HIGH / 2 + 4),
        Layer("budget-ground", ground, x=LEFT),
        Layer("budget", svg.joined(shares), x=LEFT),
        Layer("budget-figure", figure),
    ]
    if not with_legend:
        return Part(layers, HIGH + 12)
    return Part([*layers, Layer("budget-legend", legend(), x=LEFT, y=HIGH + 6)], HIGH + 28)


def one_share(state: RunState, request_id: str, num_tokens: int, decode: bool, x: float, width: float) -> Markup:
    """Return one request's share, with its label and tokens as far as they fit."""
    index, label = state.info.index(request_id), state.info.label(request_id)
    full = f"{label} {num_tokens}"
    shown = full if text_width(full, 12, bold=True) + 6 <= width else label
    kind = "decode" if decode else "prefill"
    return svg.group(
        svg.tooltip(f"{label}: {num_tokens} tokens, {kind}" if num_tokens != 1 else f"{label}: 1 token, {kind}"),
        tile(index, shown, x + 0.5, 0, width - 1, HIGH, hatched=not decode),
        data_request=str(index),
        data_kind=kind,
        class_="mv-link",
    )


def legend() -> Markup:
    """Return what hatched and solid mean."""
    prefill, decode = svg.hatch(0, 0, 16, 10, 5), svg.rect(70, 0, 16, 10, class_="mv-ink", opacity=0.7)
    box = svg.rect(0, 0, 16, 10, class_="mv-line")
    samples = svg.group(prefill, class_="mv-line")
    names = (
        svg.text(21, 9, "prefill", class_="mv-small mv-faint"),
        svg.text(91, 9, "decode", class_="mv-small mv-faint"),
    )
    return svg.joined([samples, box, decode, *names])
