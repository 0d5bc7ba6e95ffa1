"""A column for each policy: every request as a dot, then the figures as bars on common scales."""

from course.palette import OKABE_ITO
from course.simulator.served import Slo
from course.views import svg
from course.views.chart import LogScale, cloud, paragraph, sheet, x_axis, y_axis
from course.views.figures import round_seconds
from course.views.picture import Layer, Picture
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

LEFT, RIGHT = 10, 710
COLUMNS, WIDTH = (135, 333, 531), 179
COLOURS = [OKABE_ITO[number][0] for number in (4, 0, 2)]
TOP, BOTTOM = 98, 248
ROW, BAR = 21, 12
LONGEST_BAR = WIDTH - 78


def policy_picture(comparison: PolicyComparison, results: list[PolicyResult], slo: Slo) -> Picture:
    """Return the policies side by side."""
    overall, by_group = rows(results, slo), group_rows(results)
    first = BOTTOM + 48
    second = first + ROW * len(overall) + 28
    layers = [
        Layer("headline", paragraph(LEFT, 41, circumstances(comparison, slo), class_="mv-faint")),
        Layer("requests", every_request(results, slo)),
        Layer("figures", table(overall, [""] * len(results)), y=first),
        Layer("groups", group_table(by_group, results), y=second),
    ]
    text = text_alternative(comparison, results, slo)
    return sheet(title(comparison), layers, second + ROW * len(by_group) + 26, sentence(results, slo), text)


def every_request(results: list[PolicyResult], slo: Slo) -> Markup:
    """Return a small chart for each policy: how long a request waited, over the length of its output."""
    urgent = sorted(groups(results)["urgent requests"])
    waits = [time for result in results for time in result.served.times_to_first_token]
    lengths = [request.num_output_tokens for request in results[0].served.requests]
    up = LogScale.around([*waits, slo.time_to_first_token], BOTTOM, TOP)
    limit = up(slo.time_to_first_token)
    parts = [
        svg.text(LEFT, TOP - 12, "first token after", class_="mv-small mv-faint"),
        svg.text(LEFT, BOTTOM + 14, "output tokens", class_="mv-small mv-faint"),
        svg.text(COLUMNS[0], BOTTOM + 31, "a dot is a request; outlined: urgent", class_="mv-small mv-faint"),
        svg.text(RIGHT, BOTTOM + 31, f"engine: {results[0].lineup}", class_="mv-small mv-faint mv-end"),
    ]
    for left, result, colour in zip(COLUMNS, results, COLOURS, strict=True):
        across = LogScale.around(lengths, left, left + WIDTH)
        times = result.served.times_to_first_token
        places = [(across(length), up(time)) for length, time in zip(lengths, times, strict=True)]
        marked = [places[i] for i in urgent]
        labels = [(up(value), round_seconds(value) if result is results[0] else "") for value in up.ticks()]
        parts += [
            svg.text(left, TOP - 12, NAMES[result.policy], class_="mv-strong"),
            x_axis(across, TOP, BOTTOM, lambda value: f"{value:,.0f}"),
            y_axis(labels, left, left + WIDTH),
            cloud(places, 2.2, stroke=colour, stroke_opacity=0.75),
            cloud(marked, 3.2, class_="mv-line"),
            cloud(marked, 2, stroke=colour),
            svg.line(left, limit, left + WIDTH, limit, class_="mv-ghost", stroke_width=1.5),
            svg.text(left + WIDTH, limit - 4, "SLO", class_="mv-small mv-faint mv-end mv-cased"),
        ]
    return svg.joined(parts)


def group_table(by_group: list[Row], results: list[PolicyResult]) -> Markup:
    """Return the bars of the groups; the group that a policy starves most is red."""
    victims = starved(results)
    heading = svg.text(LEFT, -6, "p95 first token of ...", class_="mv-strong")
    note = svg.text(RIGHT, -6, "red: starved", class_="mv-small mv-faint mv-end")
    return svg.joined([heading, note, table(by_group, [victims.get(result.policy, "") for result in results])])


def table(lines: list[Row], marked: list[str]) -> Markup:
    """Return a row of bars for each figure; the largest bar of every row has the same length."""
    parts = []
    for n, (name, values, texts) in enumerate(lines):
        y = n * ROW + 14
        parts.append(svg.text(LEFT, y, name, class_="mv-faint"))
        for left, value, text, colour, victim in zip(COLUMNS, values, texts, COLOURS, marked, strict=True):
            length = value / (max(values) or 1.0) * LONGEST_BAR
            look = "mv-strong mv-alert" if victim == name else "mv-strong"
            parts.append(svg.rect(left, y - BAR + 2, length, BAR, fill=colour, rx=1))
            parts.append(svg.text(left + length + 5, y, text, class_=look))
    return svg.joined(parts)
