"""Two distributions of latency under the knobs, with those of the setting before as a ghost."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from course.palette import OKABE_ITO
from course.simulator.experiment import Experiment
from course.views import svg
from course.views.chart import (
    LABEL,
    MARGIN,
    Frame,
    LogScale,
    PercentScale,
    beside,
    curve,
    dot,
    foot,
    head,
    x_axis,
    y_axis,
)
from course.views.chunking_dial.figures import (
    circumstances,
    now_and_was,
    previous,
    sentence,
    shortage,
    text_alternative,
    title,
    totals,
    was,
)
from course.views.chunking_dial.trial import MARKED, Deployment, Percentiles, Setting, Trial, try_setting
from course.views.figures import round_seconds
from course.views.knobs import Choice, Slide
from course.views.picture import WIDTH, Layer, Picture
from course.views.show import panel
from course.views.svg import Markup
from course.views.typeset import shorten

if TYPE_CHECKING:
    from course.views.panels import Panel

KNOBS = (
    Slide("max_num_batched_tokens", "max_num_batched_tokens", 2048, 256, 8192, 256, "tokens"),
    Slide("long_prefill_token_threshold", "long_prefill_token_threshold", 0, 0, 4096, 128, "tokens", "none"),
    Slide("max_num_seqs", "max_num_seqs", 256, 8, 256, 8, "requests"),
    Slide("load", "load", 90, 50, 120, 5, "%"),
    Choice("workload", "workload", "mixed", ("mixed", "documents", "burst", "chat")),
)
AXIS, GAP, FROM_TITLE, BELOW = 50, 30, 44, 34
NARROW = 620
"""Below this width the charts stand one below the other."""
LATENCIES = {"request": "Time to first token", "token": "Inter-token latency"}
COLOUR = OKABE_ITO[4][0]


def chunking_dial(gpu: str = "H100", model: str = "Llama-3.1-8B", num_requests: int = 2_000) -> "Panel":
    """Return knobs over the latencies of a simulated deployment; each answer shows the one before as a ghost.

    Raises `ValueError` for a GPU or a model that is not in the simulator's tables, or do not go together.
    """
    Experiment(gpu=gpu, model=model).require_legal()
    deployment = Deployment(gpu, model, num_requests)

    def draw(*, width: float = WIDTH, before: dict[str, Any] | None = None, **values: Any) -> Picture:
        now, earlier = try_setting(Setting(**values), deployment), None
        with suppress(ValueError):
            earlier = try_setting(Setting(**before), deployment) if before else None
        return chunking_picture(now, earlier, width)

    return panel(KNOBS, draw, reflows=True)


def chunking_picture(now: Trial, before: Trial | None = None, width: float = WIDTH) -> Picture:
    """Return the latencies under a setting, and under the one before."""
    heading, y = head(title(now.setting), [circumstances(now)], width)
    first = before.times_to_first_token if before else None
    between = before.inter_token_latencies if before else None
    places, bottom = frames(width, y + 30)
    totals_y = bottom + BELOW + 24
    rest, below = figures(now, before, width)
    words, height = foot(shortage(now), totals_y + below + 8, width, "mv-alert")
    layers = [
        Layer("headline", heading),
        Layer("curves", which_is_which(now, before, width), y=y + 8),
        Layer("time to first token", waiting("request", now.times_to_first_token, first, places[0])),
        Layer(
            "inter-token latency",
            waiting("token", now.inter_token_latencies, between, places[1]),
        ),
        Layer("totals", rest, y=totals_y),
        words,
    ]
    text = text_alternative(now, before)
    return Picture(title(now.setting), height, tuple(layers), sentence(now, before), text, width)


def frames(width: float, y: float) -> tuple[list[Frame], float]:
    """Return the places of the two charts below y, and the lowest one's foot."""
    top, high = y + FROM_TITLE, 200.0
    if width >= NARROW:
        middle = width / 2
        bottom = top + high
        left = Frame(MARGIN + AXIS, middle - GAP / 2, top, bottom)
        return [left, Frame(middle + GAP / 2 + AXIS - MARGIN, width - MARGIN, top, bottom)], bottom
    high = 96
    second = top + high + BELOW + FROM_TITLE
    both = [Frame(MARGIN + AXIS, width - MARGIN, start, start + high) for start in (top, second)]
    return both, second + high


def which_is_which(now: Trial, before: Trial | None, width: float) -> Markup:
    """Return which line is which."""
    parts = [svg.line(MARGIN, 8, MARGIN + 24, 8, stroke=COLOUR, stroke_width=2.5), svg.text(MARGIN + 30, 12, "now")]
    if before is not None:
        knobs = shorten(f"before: {previous(now, before)}", width - 2 * MARGIN - 100, LABEL)
        parts.append(svg.line(MARGIN + 70, 8, MARGIN + 94, 8, class_="mv-ghost", stroke_width=1.8))
        parts.append(svg.text(MARGIN + 100, 12, knobs, class_="mv-faint"))
    return svg.joined(parts)


def waiting(unit: str, now: Percentiles, before: Percentiles | None, place: Frame) -> Markup:
    """Return one chart: the latency of each percentile of the requests, or of the tokens."""
    left, right = place.left, place.right
    across = LogScale.around([*now.values(), *(before or now).values()], left, right)
    up = PercentScale(place.bottom, place.top)
    parts = [
        svg.text(left, place.top - 28, LATENCIES[unit], class_="mv-strong"),
        svg.text(left, place.top - 12, f"p99: one {unit} in a hundred waits longer", class_="mv-faint"),
        y_axis([(up(percent), f"p{percent:.0f}") for percent in MARKED], left, right),
        x_axis(across, place.top, place.bottom, round_seconds),
    ]
    if before:
        points = [(across(value), up(percent)) for percent, value in before.items()]
        parts.append(curve(points, class_="mv-ghost", stroke_width=1.8))
    parts.append(curve([(across(v), up(p)) for p, v in now.items()], stroke=COLOUR, stroke_width=2.5))
    for percent in MARKED:
        point, other = (across(now[percent]), up(percent)), across((before or now)[percent])
        parts.append(dot(point, COLOUR))
        parts.append(beside(point, other, now_and_was(percent, now, before), left + 4, right))
    return svg.joined(parts)


def figures(now: Trial, before: Trial | None, width: float) -> tuple[Markup, float]:
    """Return the totals, each with its previous value, and their height."""
    earlier = totals(before or now)
    columns = 4 if width >= NARROW else 2
    parts, room = [svg.line(MARGIN, -18, width - MARGIN, -18, class_="mv-rule")], (width - 2 * MARGIN) / columns
    for n, ((figure, name), (old_figure, _)) in enumerate(zip(totals(now), earlier, strict=True)):
        x, y = MARGIN + n % columns * room, n // columns * 40
        parts.append(svg.text(x, y + 2, figure + was(old_figure, figure), class_="mv-strong"))
        parts.append(svg.text(x, y + 18, name, class_="mv-faint"))
    return svg.joined(parts), 40.0 * (len(earlier) // columns) - 6
