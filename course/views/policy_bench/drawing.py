"""A column for each policy: every request as a dot, then the figures as bars on common scales."""

from course.palette import OKABE_ITO
from course.simulator.served import Slo
from course.views import svg
from course.views.chart import LogScale, cloud, paragraph, x_axis, y_axis
from course.views.figures import round_seconds
from course.views.picture import Layer, Picture
from course.views.policy_bench.contest import Contest, Outcome, groups
from course.views.policy_bench.words import (
    NAMES,
    Row,
    circumstances,
    engine,
    group_rows,
    rows,
    sentence,
    starved,
    title,
    twin,
)
from course.views.svg import Markup
from course.views.typeset import wrap

LEFT, RIGHT = 10, 710
COLUMNS, WIDTH = (135, 333, 531), 179
COLOURS = [OKABE_ITO[number][0] for number in (4, 0, 2)]
TOP, BOTTOM = 98, 248
ROW, BAR = 21, 12
LONGEST_BAR = WIDTH - 78
MOST_LINES = 4


def policy_picture(contest: Contest, outcomes: list[Outcome], slo: Slo) -> Picture:
    """Return the policies side by side."""
    said = sentence(outcomes, slo)
    everybody, by_group = rows(outcomes, slo), group_rows(outcomes)
    first = BOTTOM + 48
    second = first + ROW * len(everybody) + 28
    end = second + ROW * len(by_group) + 26
    return Picture(
        title=title(contest),
        height=end + 16 * MOST_LINES,
        layers=(
            Layer("headline", headline(contest, slo)),
            Layer("requests", every_request(outcomes, slo)),
            Layer("figures", table(everybody, [""] * len(outcomes)), y=first),
            Layer("groups", group_table(by_group, outcomes), y=second),
            Layer("sentence", paragraph(LEFT, end, wrap(said, RIGHT - LEFT, 12, MOST_LINES))),
        ),
        sentence=said,
        twin=twin(contest, outcomes, slo),
    )


def headline(contest: Contest, slo: Slo) -> Markup:
    """Return what is served, and what counts as good."""
    lines = paragraph(LEFT, 41, circumstances(contest, slo), class_="mv-faint")
    return svg.joined([svg.text(LEFT, 22, title(contest), class_="mv-title"), lines])


def every_request(outcomes: list[Outcome], slo: Slo) -> Markup:
    """Return a small chart for each policy: how long a request waited, over the length of its answer."""
    urgent = groups(outcomes)["urgent requests"]
    waits = [time for outcome in outcomes for time in outcome.served.times_to_first_token]
    lengths = [request.num_output_tokens for request in outcomes[0].served.requests]
    up = LogScale.around([*waits, slo.time_to_first_token], BOTTOM, TOP)
    parts = [
        svg.text(LEFT, TOP - 12, "first token after", class_="mv-small mv-faint"),
        svg.text(LEFT, BOTTOM + 14, "tokens of the answer", class_="mv-small mv-faint"),
        svg.text(COLUMNS[0], BOTTOM + 31, "a dot is a request; outlined: urgent", class_="mv-small mv-faint"),
        svg.text(RIGHT, BOTTOM + 31, engine(outcomes), class_="mv-small mv-faint mv-end"),
    ]
    for left, outcome, colour in zip(COLUMNS, outcomes, COLOURS, strict=True):
        across = LogScale.around(lengths, left, left + WIDTH)
        times = outcome.served.times_to_first_token
        places = [(across(length), up(time)) for length, time in zip(lengths, times, strict=True)]
        marked = [places[i] for i in sorted(urgent)]
        limit = up(slo.time_to_first_token)
        labels = [(up(value), round_seconds(value) if outcome is outcomes[0] else "") for value in up.ticks()]
        parts += [
            svg.text(left, TOP - 12, NAMES[outcome.policy], class_="mv-strong"),
            x_axis(across, TOP, BOTTOM, lambda value: f"{value:,.0f}"),
            y_axis(labels, left, left + WIDTH),
            cloud(places, 2.2, stroke=colour, stroke_opacity=0.75),
            cloud(marked, 3.2, class_="mv-line"),
            cloud(marked, 2, stroke=colour),
            svg.line(left, limit, left + WIDTH, limit, class_="mv-ghost", stroke_width=1.5),
            svg.text(left + WIDTH, limit - 4, "SLO", class_="mv-small mv-faint mv-end mv-cased"),
        ]
    return svg.joined(parts)


def group_table(by_group: list[Row], outcomes: list[Outcome]) -> Markup:
    """Return the bars of the groups; who is starved most under a policy is marked."""
    victims = starved(outcomes)
    marked = [victims.get(outcome.policy, "") for outcome in outcomes]
    heading = svg.text(LEFT, -6, "p95 first token of ...", class_="mv-strong")
    note = svg.text(RIGHT, -6, "red: who is starved", class_="mv-small mv-faint mv-end")
    return svg.joined([heading, note, table(by_group, marked)])


def table(lines: list[Row], marked: list[str]) -> Markup:
    """Return a row of bars for each figure, the largest of them as long as any row's largest."""
    parts = []
    for n, (name, values, texts) in enumerate(lines):
        y = n * ROW + 14
        parts.append(svg.text(LEFT, y, name, class_="mv-faint"))
        largest = max(values) or 1.0
        cells = zip(COLUMNS, values, texts, COLOURS, marked, strict=True)
        for left, value, text, colour, victim in cells:
            length = value / largest * LONGEST_BAR
            look = "mv-strong mv-alert" if victim == name else "mv-strong"
            parts.append(svg.rect(left, y - BAR + 2, length, BAR, fill=colour, rx=1))
            parts.append(svg.text(left + length + 5, y, text, class_=look))
    return svg.joined(parts)
