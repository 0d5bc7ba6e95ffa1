"""A column for each policy: every request as a dot, then the figures as bars on common scales."""

from collections.abc import Sequence

from course.simulator.served import Slo
from course.views import svg
from course.views.bars import COLOUR
from course.views.chart import MARGIN, LogScale, cloud, foot, head, x_axis, y_axis
from course.views.figures import round_seconds
from course.views.picture import WIDTH, Layer, Picture
from course.views.policy_comparison.comparison import PolicyComparison, PolicyResult, groups
from course.views.policy_comparison.figures import (
    NAMES,
    Row,
    circumstances,
    group_rows,
    rows,
    sentence,
    starved,
    text_alternative,
    title,
)
from course.views.svg import Markup

PALE = 0.4
LABELS, GAP, ROW, BAR, NUMBERS = 146, 16, 18, 11, 58
TOP, CHART, NARROW = 32, 122, 620
KEY = "Dots: requests, outlined: urgent. ↓ less is better, ↑ more; full colour: the best; red: starved"


def policy_picture(
    comparison: PolicyComparison, results: list[PolicyResult], slo: Slo, width: float = WIDTH
) -> Picture:
    """Return the policies side by side."""
    overall, by_group = rows(results, slo), group_rows(results)
    heading, y = head(title(comparison), circumstances(comparison, slo), width)
    columns = columns_of(len(results), width)
    first = y + TOP + CHART + 38
    second = first + ROW * len(overall) + 26
    below = KEY if width < NARROW else f"{KEY}. {sentence(results, slo)}"
    words, height = foot(below, second + ROW * len(by_group) + 18, width)
    layers = [
        Layer("headline", heading),
        Layer("requests", every_request(results, slo, columns, width), y=y + TOP),
        Layer("figures", table(overall, [""] * len(results), columns), y=first),
        Layer("groups", group_table(by_group, results, columns), y=second),
        words,
    ]
    text = text_alternative(comparison, results, slo)
    return Picture(title(comparison), height, tuple(layers), sentence(results, slo), text, width)


def columns_of(number: int, width: float) -> list[tuple[float, float]]:
    """Return where each policy's column begins and ends."""
    step = (width - 2 * MARGIN - LABELS + GAP) / number
    return [(MARGIN + LABELS + n * step, MARGIN + LABELS + (n + 1) * step - GAP) for n in range(number)]


def every_request(
    results: list[PolicyResult], slo: Slo, columns: Sequence[tuple[float, float]], width: float
) -> Markup:
    """Return a small chart for each policy: how long a request waited, over the length of its output."""
    urgent = sorted(groups(results)["urgent requests"])
    waits = [time for result in results for time in result.times_to_first_token]
    lengths = [request.num_output_tokens for request in results[0].served.requests]
    up = LogScale.around([*waits, slo.time_to_first_token], CHART, 0)
    limit = up(slo.time_to_first_token)
    parts = [
        svg.text(MARGIN, -12, "first token after", class_="mv-faint"),
        svg.text(MARGIN, CHART + 14, "output tokens", class_="mv-faint"),
    ]
    for (left, right), result in zip(columns, results, strict=True):
        across = LogScale.around(lengths, left, right)
        places = [(across(a), up(b)) for a, b in zip(lengths, result.times_to_first_token, strict=True)]
        marked = [places[i] for i in urgent]
        labels = [(up(value), round_seconds(value) if result is results[0] else "") for value in up.ticks()]
        parts += [
            svg.text(left, -12, NAMES[result.policy], class_="mv-strong"),
            x_axis(across, 0, CHART, lambda value: f"{value:,.0f}"),
            y_axis(labels, left, right),
            cloud(places, 2.2, stroke=COLOUR, stroke_opacity=0.75),
            cloud(marked, 3.2, class_="mv-line"),
            cloud(marked, 2, stroke=COLOUR),
            svg.line(left, limit, right, limit, class_="mv-ghost", stroke_width=1.5),
            svg.text(right, limit - 4, "SLO", class_="mv-faint mv-end mv-cased"),
        ]
    return svg.joined(parts)


def group_table(by_group: list[Row], results: list[PolicyResult], columns: Sequence[tuple[float, float]]) -> Markup:
    """Return the bars of the groups; the group that a policy starves most is red."""
    victims = starved(results)
    heading = svg.text(MARGIN, -4, "p95 first token of ...", class_="mv-strong")
    engine = svg.text(columns[-1][1], -4, f"engine: {results[0].lineup}", class_="mv-faint mv-end")
    return svg.joined(
        [heading, engine, table(by_group, [victims.get(result.policy, "") for result in results], columns)]
    )


def table(lines: list[Row], marked: list[str], columns: Sequence[tuple[float, float]]) -> Markup:
    """Return a row of bars for each figure, with the direction that is better; the best ones are in full colour."""
    parts, longest = [], columns[0][1] - columns[0][0] - NUMBERS
    for n, line in enumerate(lines):
        y = n * ROW + 14
        parts.append(svg.text(MARGIN, y, "↑" if line.more_is_better else "↓", class_="mv-faint"))
        parts.append(svg.text(MARGIN + 12, y, line.name, class_="mv-faint"))
        for (left, _), value, text, victim in zip(columns, line.values, line.texts, marked, strict=True):
            length = value / (max(line.values) or 1.0) * longest
            shade = None if value == line.best else PALE
            look = "mv-strong mv-alert" if victim == line.name else "mv-strong" if value == line.best else None
            parts.append(svg.rect(left, y - BAR + 1, length, BAR, fill=COLOUR, rx=1, fill_opacity=shade))
            parts.append(svg.text(left + length + 5, y, text, class_=look))
    return svg.joined(parts)
