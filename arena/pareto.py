"""The picture of a contest: what a policy costs in latency against how fairly it serves."""

from collections.abc import Mapping, Sequence
from math import dist

from arena.contest import Estimate
from course.views import chart, svg
from course.views.bars import COLOUR
from course.views.chart import MARGIN, LogScale
from course.views.figures import round_seconds
from course.views.picture import WIDTH, Layer, Picture
from course.views.typeset import text_width, wrap

Place = tuple[Estimate, Estimate]  # mean seconds of a whole request, and Jain's index
LEFT, TOP, HEIGHT, RADIUS = 52, 30, 260, 5
LABEL, LABEL_HEIGHT = 12, 15


def front(places: Mapping[str, Place]) -> list[str]:
    """Return the policies that no other beats in both, the fastest first."""
    best: list[str] = []
    for name in sorted(places, key=lambda name: (places[name][0].mean, -places[name][1].mean)):
        if not best or places[name][1].mean > places[best[-1]][1].mean:
            best.append(name)
    return best


def pareto_picture(places: Mapping[str, Place], conditions: str, width: float = WIDTH) -> Picture:
    """Return a point for each policy, left is faster and up is fairer, and the line of those that none beats."""
    best = front(places)
    title = "Which policy is fast, and which is fair"
    heading, y = chart.head(title, [conditions], width)
    top, bottom = y + TOP, y + TOP + HEIGHT
    across = LogScale.around([latency.mean for latency, _ in places.values()], LEFT, width - MARGIN)
    lowest = min(jain.mean for _, jain in places.values())
    floor = min(0.95, int(lowest * 20) / 20)

    def up(value: float) -> float:
        return bottom - (value - floor) / (1 - floor) * HEIGHT

    ticks = [floor + (1 - floor) * number / 4 for number in range(5)]
    points = {name: (across(latency.mean), up(jain.mean)) for name, (latency, jain) in places.items()}
    steps = [points[name] for name in best]
    axes = [
        svg.text(MARGIN, top - 14, "Jain's index over tenants that wait (1: all served alike)", class_="mv-faint"),
        chart.x_axis(across, top, bottom, round_seconds),
        chart.y_axis([(up(tick), f"{tick:.2f}") for tick in ticks], LEFT, width - MARGIN),
        svg.text(width - MARGIN, bottom + 32, "mean seconds of a whole request", class_="mv-faint mv-end"),
    ]
    dots = [chart.curve(steps, stroke=COLOUR, stroke_width=2, stroke_opacity=0.5)]
    for name, point in points.items():
        dots.append(chart.dot(point, COLOUR if name in best else "#999999", RADIUS))
    dots += labels(points, best, width, bottom)
    said = sentence(places, best)
    words, height = chart.foot(said, bottom + 52, width)
    layers = (
        Layer("headline", heading),
        Layer("axes", svg.joined(axes)),
        Layer("policies", svg.joined(dots)),
        words,
    )
    return Picture(title, height, layers, said, text_twin(places, best), width)


def labels(
    points: Mapping[str, tuple[float, float]], best: Sequence[str], width: float, bottom: float
) -> list[svg.Markup]:
    """Return the names beside their points, moved where they would overlap; those in one place share lines."""
    # A line of text reaches from 8 above its y to 7 below, a point from RADIUS above to RADIUS below.
    dots = [(x - RADIUS, x + RADIUS, y + 8 - RADIUS, y + 8 + RADIUS) for x, y in points.values()]
    taken: list[tuple[float, float, float, float]] = []
    drawn = []
    for names in sorted(together(points, best), key=lambda names: names[0] not in best):  # the front stays in place
        x, y = points[names[0]]
        is_right = x < width * 0.7
        beside = x + RADIUS + 5 if is_right else x - RADIUS - 5
        lines = wrap(", ".join(names), width - MARGIN - beside if is_right else beside - LEFT, LABEL, len(names))
        wide, high = max(text_width(line, LABEL, bold=True) for line in lines), LABEL_HEIGHT * len(lines)
        left, others = beside if is_right else beside - wide, taken if names[0] in best else taken + dots
        beside_these = [(top, low) for start, end, top, low in others if left < end and start < left + wide]
        below = range(max(1, int(bottom + RADIUS - high - y)))
        tops = (y + moved for moved in (*below, *range(-1, -HEIGHT, -1)))
        y = next((at for at in tops if not any(at < low and top < at + high for top, low in beside_these)), y)
        taken.append((left, left + wide, y, y + high))
        look = f"mv-{'strong' if names[0] in best else 'faint'} mv-cased{'' if is_right else ' mv-end'}"
        drawn += [svg.text(beside, y + 4 + LABEL_HEIGHT * row, line, class_=look) for row, line in enumerate(lines)]
    return drawn


def together(points: Mapping[str, tuple[float, float]], best: Sequence[str]) -> list[list[str]]:
    """Return the names from above, those of beaten policies whose points touch as one group."""
    groups: list[list[str]] = []
    for name in sorted(points, key=lambda name: points[name][1]):
        for names in groups:
            if not {name, names[0]} & {*best} and dist(points[name], points[names[0]]) < 2 * RADIUS:
                names.append(name)
                break
        else:
            groups.append([name])
    return groups


def sentence(places: Mapping[str, Place], best: Sequence[str]) -> str:
    """Return what the picture says."""
    fastest, fairest = best[0], best[-1]
    if fastest == fairest:
        return f"No policy beats {fastest}: it is the fastest and the fairest here."
    factor = places[fairest][0].mean / places[fastest][0].mean
    return (
        f"{fastest} is the fastest; {fairest} the fairest, and its requests take {factor:.2f} times as long. "
        "Grey: another policy is both faster and fairer."
    )


def text_twin(places: Mapping[str, Place], best: Sequence[str]) -> str:
    """Return the picture as text."""
    lines = [
        f"{name}: {latency.mean:.3g} s a request, Jain's index {jain.mean:.3f}" + (", on the front" * (name in best))
        for name, (latency, jain) in places.items()
    ]
    return "\n".join([*lines, sentence(places, best)])
