"""Two distributions of waiting, the one of before behind them as a ghost."""

from course.palette import OKABE_ITO
from course.views import svg
from course.views.chart import LogScale, PercentScale, below_right, curve, dot, paragraph, x_axis, y_axis
from course.views.chunking_dial.trial import MARKED, Percentiles, Trial
from course.views.chunking_dial.words import circumstances, now_and_was, sentence, stood_at, title, totals, twin, was
from course.views.figures import round_seconds
from course.views.picture import Layer, Picture
from course.views.svg import Markup
from course.views.typeset import shorten, wrap

LEFT, RIGHT = 10, 710
TOP, BOTTOM = 118, 338
CHARTS = ((60, 365), (405, 710))
COLOUR = OKABE_ITO[4][0]
MOST_LINES = 4


def chunking_picture(now: Trial, before: Trial | None = None) -> Picture:
    """Return how long one waits under a setting, and under the one before."""
    said = sentence(now, before)
    first = before.times_to_first_token if before else None
    between = before.inter_token_latencies if before else None
    return Picture(
        title=title(now.setting),
        height=BOTTOM + 108 + 16 * MOST_LINES,
        layers=(
            Layer("headline", headline(now, before)),
            Layer("time to first token", waiting("Time to first token", "request", now.times_to_first_token, first, 0)),
            Layer(
                "inter-token latency", waiting("Inter-token latency", "token", now.inter_token_latencies, between, 1)
            ),
            Layer("totals", figures(now, before), y=BOTTOM + 58),
            Layer("sentence", paragraph(LEFT, BOTTOM + 112, wrap(said, RIGHT - LEFT, 12, MOST_LINES))),
        ),
        sentence=said,
        twin=twin(now, before),
    )


def headline(now: Trial, before: Trial | None) -> Markup:
    """Return the setting, what it was tried on, and which line is which."""
    parts = [
        svg.text(LEFT, 22, title(now.setting), class_="mv-title"),
        svg.text(LEFT, 41, shorten(circumstances(now), RIGHT - LEFT, 12), class_="mv-faint"),
        svg.line(LEFT, 60, LEFT + 24, 60, stroke=COLOUR, stroke_width=2.5),
        svg.text(LEFT + 30, 64, "now"),
    ]
    if before is not None:
        words = f"before: {stood_at(before, now)}"
        parts.append(svg.line(LEFT + 70, 60, LEFT + 94, 60, class_="mv-ghost", stroke_width=1.8))
        parts.append(svg.text(LEFT + 100, 64, shorten(words, RIGHT - LEFT - 100, 12), class_="mv-faint"))
    return svg.joined(parts)


def waiting(name: str, who: str, now: Percentiles, before: Percentiles | None, place: int) -> Markup:
    """Return one chart: what share of the requests, or of the tokens, had to wait how long at most."""
    left, right = CHARTS[place]
    across = LogScale.around([*now.values(), *(before or now).values()], left, right)
    up = PercentScale(BOTTOM, TOP)
    parts = [
        svg.text(left, TOP - 26, name, class_="mv-strong"),
        svg.text(left, TOP - 11, f"p99: one {who} in a hundred waits longer", class_="mv-small mv-faint"),
        y_axis([(up(percent), f"p{percent:.0f}") for percent in MARKED], left, right),
        x_axis(across, TOP, BOTTOM, round_seconds),
    ]
    if before:
        points = [(across(value), up(percent)) for percent, value in before.items()]
        parts.append(curve(points, class_="mv-ghost", stroke_width=1.8))
    parts.append(curve([(across(v), up(p)) for p, v in now.items()], stroke=COLOUR, stroke_width=2.5))
    for percent in MARKED:
        point = across(now[percent]), up(percent)
        parts.append(dot(point, COLOUR))
        parts.append(below_right(point, now_and_was(percent, now, before), left + 4, right))
    return svg.joined(parts)


def figures(now: Trial, before: Trial | None) -> Markup:
    """Return the totals side by side, those of before beneath."""
    earlier = totals(before or now)
    parts, width = [svg.line(LEFT, -18, RIGHT, -18, class_="mv-rule")], (RIGHT - LEFT) / len(earlier)
    for n, ((figure, name), (figure_before, _)) in enumerate(zip(totals(now), earlier, strict=True)):
        x = LEFT + n * width
        parts.append(svg.text(x, 4, figure + was(figure_before, figure), class_="mv-strong"))
        parts.append(svg.text(x, 20, name, class_="mv-small mv-faint"))
    return svg.joined(parts)
