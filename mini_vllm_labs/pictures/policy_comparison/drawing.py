"""Draws one column per policy below the knobs, with requests as dots and figures as bars on common scales."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mini_vllm.assembly.lineup import lineup_from_env
from mini_vllm.engine.errors import StalledError
from mini_vllm_labs.pictures import chart, svg
from mini_vllm_labs.pictures.bars import COLOUR
from mini_vllm_labs.pictures.chart import MARGIN, LogScale
from mini_vllm_labs.pictures.knobs import Menu, Slider
from mini_vllm_labs.pictures.picture import WIDTH, Layer, Picture
from mini_vllm_labs.pictures.policy_comparison import comparison_text
from mini_vllm_labs.pictures.policy_comparison.comparison import (
    BY_GUESSES,
    PolicyComparison,
    PolicyResult,
    compare_policies,
    groups,
)
from mini_vllm_labs.pictures.quantities import round_seconds
from mini_vllm_labs.policies.named import SIGMA
from mini_vllm_labs.simulation.served import Slo
from mini_vllm_labs.simulation.workloads import WORKLOADS

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.panels import Panel


PALE = 0.4
LABELS, GAP, ROW, BAR, NUMBERS = 146, 16, 18, 11, 58
TOP, CHART, NARROW = 32, 122, 620
KEY = "Dots: requests, outlined: urgent. ↓ less is better, ↑ more; full colour: the best; red: starved"
KNOBS = (
    Menu("workload", "workload", "shared-prefix", tuple(WORKLOADS)),
    Slider("load", "load", 150, 50, 200, 10, "%"),
    Slider("num_gpu_blocks", "num_gpu_blocks", 800, 800, 4000, 200, "blocks"),
    Slider("prediction_sigma", "error of predicted lengths", SIGMA, 0, 2, 0.1, at_zero="perfect"),
    Slider("time_to_first_token", "SLO: first token within", 1, 0.1, 10, 0.1, "s"),
    Slider("inter_token_latency", "SLO: next tokens within", 50, 5, 100, 5, "ms"),
)
MAX_REMEMBERED = 64
SLO_KNOBS = ("time_to_first_token", "inter_token_latency")


def policy_picture(
    comparison: PolicyComparison, results: list[PolicyResult], slo: Slo, width: float = WIDTH
) -> Picture:
    overall, by_group = comparison_text.rows(results, slo), comparison_text.group_rows(results)
    heading, y = chart.head(comparison_text.title(comparison), comparison_text.circumstances(comparison, slo), width)
    step = (width - 2 * MARGIN - LABELS + GAP) / len(results)
    columns = [(MARGIN + LABELS + n * step, MARGIN + LABELS + (n + 1) * step - GAP) for n in range(len(results))]
    first = y + TOP + CHART + 38
    second = first + ROW * len(overall) + 26
    below = KEY if width < NARROW else f"{KEY}. {comparison_text.sentence(results, slo)}"
    words, height = chart.foot(below, second + ROW * len(by_group) + 18, width)
    layers = [
        Layer("headline", heading),
        Layer("requests", every_request(results, slo, columns), y=y + TOP),
        Layer("figures", table(overall, [""] * len(results), columns), y=first),
        Layer("groups", group_table(by_group, results, columns), y=second),
        words,
    ]
    text = comparison_text.text_alternative(comparison, results, slo)
    return Picture(
        comparison_text.title(comparison), height, tuple(layers), comparison_text.sentence(results, slo), text, width
    )


def every_request(results: list[PolicyResult], slo: Slo, columns: Sequence[tuple[float, float]]) -> svg.Markup:
    """Draw one small chart per policy that plots each request's wait against its output length."""
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
            svg.text(left, -12, result.policy, class_="mv-strong"),
            chart.x_axis(across, 0, CHART, lambda value: f"{value:,.0f}"),
            chart.y_axis(labels, left, right),
            chart.cloud(places, 2.2, stroke=COLOUR, stroke_opacity=0.75),
            chart.cloud(marked, 3.2, class_="mv-line"),
            chart.cloud(marked, 2, stroke=COLOUR),
            svg.line(left, limit, right, limit, class_="mv-ghost", stroke_width=1.5),
            svg.text(right, limit - 4, "SLO", class_="mv-faint mv-end mv-cased"),
        ]
    return svg.joined(parts)


def group_table(
    by_group: list[comparison_text.FigureRow], results: list[PolicyResult], columns: Sequence[tuple[float, float]]
) -> svg.Markup:
    """Draw the groups' bars; the group that a policy starves most is red."""
    victims = comparison_text.starved(results)
    heading = svg.text(MARGIN, -4, "p95 first token of ...", class_="mv-strong")
    engine = svg.text(columns[-1][1], -4, f"engine: {results[0].lineup}", class_="mv-faint mv-end")
    marked = [victims.get(result.policy, "") for result in results]
    return svg.joined([heading, engine, table(by_group, marked, columns)])


def table(
    lines: list[comparison_text.FigureRow], marked: list[str], columns: Sequence[tuple[float, float]]
) -> svg.Markup:
    """Draw one row of bars per figure and state which direction is better; the best bars have full colour."""
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


def compare_with_this_lineup(comparison: PolicyComparison) -> list[PolicyResult]:
    """Compare policies with the lineup of `LAB_IMPL`. Raises `ValueError` if the lineup's engine stalls."""
    try:
        return compare_policies(comparison, lineup_from_env())
    except StalledError as error:
        raise ValueError(str(error)) from error


def policy_panel(
    compare: Callable[[PolicyComparison], list[PolicyResult]] = compare_with_this_lineup,
    code: Callable[[], object] = tuple,
) -> "Panel":
    """Return knobs above a comparison of three policies. `compare` serves only the requests that a knob's change
    affects.

    A notebook passes a `compare` that runs in a new process and so uses the latest saved code. When `code` returns a
    new value, all requests are served again. If `compare` raises `ValueError`, the reader sees its message.
    """
    from mini_vllm_labs.pictures.panels import Panel

    known: dict[tuple[PolicyComparison, object], list[PolicyResult]] = {}

    def served(comparison: PolicyComparison, now: object) -> list[PolicyResult]:
        sigma = comparison.prediction_sigma
        like = (known[one, at] for one, at in known if (replace(one, prediction_sigma=sigma), at) == (comparison, now))
        alike = next(like, None)
        if alike is None:
            return compare(comparison)
        guessed = compare(replace(comparison, policies=(BY_GUESSES,)))
        return [*(result for result in alike if result.policy != BY_GUESSES), *guessed]

    def draw(width: float = WIDTH, before: object = None, **asked: Any) -> Picture:
        comparison = PolicyComparison(**{name: value for name, value in asked.items() if name not in SLO_KNOBS})
        asking = comparison, code()
        if asking not in known:
            known[asking] = served(*asking)
        if len(known) > MAX_REMEMBERED:
            del known[next(iter(known))]
        slo = Slo(asked["time_to_first_token"], asked["inter_token_latency"] / 1e3)
        return policy_picture(comparison, known[asking], slo, width)

    return Panel(KNOBS, draw, reflows=True)
