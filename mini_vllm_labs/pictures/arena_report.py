"""Builds the report of `mini-vllm arena`: its tables, and a picture that plots the policies' latency against their
fairness."""

import math
from collections.abc import Callable, Mapping, Sequence
from math import dist

from rich import box
from rich.table import Table

from mini_vllm_labs.pictures import chart, svg
from mini_vllm_labs.pictures.bars import COLOUR
from mini_vllm_labs.pictures.chart import MARGIN, LogScale
from mini_vllm_labs.pictures.picture import WIDTH, Layer, Picture
from mini_vllm_labs.pictures.quantities import round_seconds
from mini_vllm_labs.pictures.typeset import text_width, wrap
from mini_vllm_labs.simulation.arena.contest import Estimate
from mini_vllm_labs.simulation.arena.figures import Figures

Read = Callable[[Figures], float]
# Heading, unit, whether higher is better, and the function that reads the value.
LATENCIES: list[tuple[str, str, bool, Read]] = [
    ("TTFT\np50", "s", False, lambda run: run.ttft.p50),
    ("TTFT\np99", "s", False, lambda run: run.ttft.p99),
    ("TPOT\np50", "ms", False, lambda run: 1e3 * run.tpot.p50),
    ("TPOT\np99", "ms", False, lambda run: 1e3 * run.tpot.p99),
    ("E2E\nmean", "s", False, lambda run: run.e2e.mean),
    ("E2E\np99", "s", False, lambda run: run.e2e.p99),
    ("longest\nwait", "s", False, lambda run: run.longest_wait),
]
WORK: list[tuple[str, str, bool, Read]] = [
    ("Jain's\nindex", "", True, lambda run: run.jain_index),
    ("max. service\ngap", "", False, lambda run: run.max_service_difference),
    ("QoE", "", True, lambda run: run.qoe),
    ("pre-\nempted", "", False, lambda run: run.num_preemptions),
    ("tokens\ntwice", "", False, lambda run: run.num_recomputed_tokens),
    ("hits", "%", True, lambda run: 100 * run.hit_rate),
    ("output\ntok/s", "", True, lambda run: run.tokens_per_second),
]
Place = tuple[Estimate, Estimate]  # mean seconds for a whole request, and Jain's index
LEFT, TOP, HEIGHT, RADIUS = 52, 30, 260, 5
LABEL, LABEL_HEIGHT = 12, 15


def estimate(runs: Sequence[Figures], read: Read) -> Estimate:
    """Estimate a figure from its values for all seeds."""
    return Estimate.of([read(run) for run in runs])


def digits(value: float) -> str:
    """Format a number with three significant digits, or as a whole number if it is 100 or more."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def cell(value: Estimate) -> str:
    """Format a mean with the margin of its 95% interval, if it has one."""
    return digits(value.mean) if math.isnan(value.margin) else f"{digits(value.mean)} ±{digits(value.margin)}"


def figures_table(results: Mapping[str, Sequence[Figures]], columns: Sequence[tuple[str, str, bool, Read]]) -> Table:
    """Return a table with a row per policy; the best value of each column is bold."""
    table = plain_table("policy", *(f"{heading} {unit}".rstrip() for heading, unit, _, _ in columns))
    means = {name: [estimate(runs, read).mean for *_, read in columns] for name, runs in results.items()}
    for name, row in means.items():
        cells = []
        for number, value in enumerate(row):
            others = [each[number] for each in means.values()]
            best = max(others) if columns[number][2] else min(others)
            cells.append(f"[bold]{digits(value)}[/bold]" if value == best and len(set(others)) > 1 else digits(value))
        table.add_row(name, *cells)
    return table


def goodput_table(results: Mapping[str, Sequence[Figures]]) -> Table:
    """Return a table of each policy's goodput, in total and by class: percentage, requests/s and output tokens/s."""
    table = plain_table("policy", "class", "good %", "requests/s", "output tokens/s")
    for name, runs in results.items():
        for number, each in enumerate(["all", *runs[0].classes]):
            shares = [run.share_good if each == "all" else run.classes[each].share_good for run in runs]
            of_run = [list(run.classes.values()) if each == "all" else [run.classes[each]] for run in runs]
            requests = [sum(one.requests_per_second for one in chosen) for chosen in of_run]
            tokens = [sum(one.tokens_per_second for one in chosen) for chosen in of_run]
            figures = [Estimate.of(values) for values in ([100 * share for share in shares], requests, tokens)]
            table.add_row("" if number else name, each, *map(cell, figures), end_section=number == len(runs[0].classes))
    return table


def plain_table(first: str, *headings: str) -> Table:
    """Return an empty table with right-aligned number columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)  # lets all policies fit into 80 columns
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "class" else "right")
    return table


def front(places: Mapping[str, Place]) -> list[str]:
    """Return the policies that no other policy beats in both latency and fairness, fastest first."""
    best: list[str] = []
    for name in sorted(places, key=lambda name: (places[name][0].mean, -places[name][1].mean)):
        if not best or places[name][1].mean > places[best[-1]][1].mean:
            best.append(name)
    return best


def pareto_picture(places: Mapping[str, Place], conditions: str, width: float = WIDTH) -> Picture:
    """Draw a point per policy (left is faster, up is fairer), and a line through the unbeaten policies."""
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
    """Draw the names next to their points, moving any that would overlap; names at the same position share lines."""
    # A line of text extends from 8 above its y to 7 below it; a point extends RADIUS in both directions.
    dots = [(x - RADIUS, x + RADIUS, y + 8 - RADIUS, y + 8 + RADIUS) for x, y in points.values()]
    taken: list[tuple[float, float, float, float]] = []
    drawn = []
    for names in sorted(together(points, best), key=lambda names: names[0] not in best):
        # the front of the queue keeps its position
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
    """Return the names from top to bottom; beaten policies whose points touch form one group."""
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
    """Return the picture's main finding as a sentence."""
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
