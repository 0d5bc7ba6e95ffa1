"""Two distributions of latency under the knobs, with those of the setting before as a ghost."""

from typing import TYPE_CHECKING, Any

from course.palette import OKABE_ITO
from course.simulator.experiment import Experiment
from course.views import svg
from course.views.chart import LogScale, PercentScale, below_right, curve, dot, sheet, x_axis, y_axis
from course.views.chunking_dial.figures import (
    circumstances,
    now_and_was,
    previous,
    sentence,
    text_alternative,
    title,
    totals,
    was,
)
from course.views.chunking_dial.trial import MARKED, Deployment, Percentiles, Setting, Trial, try_setting
from course.views.figures import round_seconds
from course.views.knobs import Choice, Slide
from course.views.picture import Layer, Picture
from course.views.show import panel
from course.views.svg import Markup
from course.views.typeset import shorten

if TYPE_CHECKING:
    from course.views.widgets import Panel

KNOBS = (
    Slide("max_num_batched_tokens", "max_num_batched_tokens", 2048, 256, 8192, 256, "tokens"),
    Slide("long_prefill_token_threshold", "long_prefill_token_threshold (0: none)", 0, 0, 4096, 128, "tokens"),
    Slide("max_num_seqs", "max_num_seqs", 256, 8, 256, 8, "requests"),
    Slide("load", "load", 90, 50, 120, 5, "%"),
    Choice("workload", "workload", "mixed", ("mixed", "documents", "burst", "chat")),
)
LEFT, RIGHT = 10, 710
TOP, BOTTOM = 118, 338
CHARTS = ((60, 365), (405, 710))
COLOUR = OKABE_ITO[4][0]


def chunking_dial(gpu: str = "H100", model: str = "Llama-3.1-8B", num_requests: int = 2_000) -> "Panel":
    """Return knobs over the latencies of a simulated deployment; each answer shows the one before as a ghost.

    Raises `ValueError` for a GPU or a model that is not in the simulator's tables, or do not go together.
    """
    Experiment(gpu=gpu, model=model).require_legal()
    return panel(KNOBS, Dial(Deployment(gpu, model, num_requests)))


class Dial:
    """Draws a setting over the one before."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.last: Trial | None = None

    def __call__(self, **values: Any) -> Picture:
        before, self.last = self.last, try_setting(Setting(**values), self.deployment)
        return chunking_picture(self.last, before)


def chunking_picture(now: Trial, before: Trial | None = None) -> Picture:
    """Return the latencies under a setting, and under the one before."""
    first = before.times_to_first_token if before else None
    between = before.inter_token_latencies if before else None
    layers = [
        Layer("headline", headline(now, before)),
        Layer("time to first token", waiting("Time to first token", "request", now.times_to_first_token, first, 0)),
        Layer("inter-token latency", waiting("Inter-token latency", "token", now.inter_token_latencies, between, 1)),
        Layer("totals", figures(now, before), y=BOTTOM + 58),
    ]
    return sheet(title(now.setting), layers, BOTTOM + 112, sentence(now, before), text_alternative(now, before))


def headline(now: Trial, before: Trial | None) -> Markup:
    """Return the workload, and which line is which."""
    parts = [
        svg.text(LEFT, 41, shorten(circumstances(now), RIGHT - LEFT, 12), class_="mv-faint"),
        svg.line(LEFT, 60, LEFT + 24, 60, stroke=COLOUR, stroke_width=2.5),
        svg.text(LEFT + 30, 64, "now"),
    ]
    if before is not None:
        knobs = shorten(f"before: {previous(now, before)}", RIGHT - LEFT - 100, 12)
        parts.append(svg.line(LEFT + 70, 60, LEFT + 94, 60, class_="mv-ghost", stroke_width=1.8))
        parts.append(svg.text(LEFT + 100, 64, knobs, class_="mv-faint"))
    return svg.joined(parts)


def waiting(name: str, unit: str, now: Percentiles, before: Percentiles | None, place: int) -> Markup:
    """Return one chart: the latency of each percentile of the requests, or of the tokens."""
    left, right = CHARTS[place]
    across = LogScale.around([*now.values(), *(before or now).values()], left, right)
    up = PercentScale(BOTTOM, TOP)
    parts = [
        svg.text(left, TOP - 26, name, class_="mv-strong"),
        svg.text(left, TOP - 11, f"p99: one {unit} in a hundred waits longer", class_="mv-small mv-faint"),
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
    """Return the totals side by side, each with its previous value."""
    earlier = totals(before or now)
    parts, width = [svg.line(LEFT, -18, RIGHT, -18, class_="mv-rule")], (RIGHT - LEFT) / len(earlier)
    for n, ((figure, name), (old_figure, _)) in enumerate(zip(totals(now), earlier, strict=True)):
        x = LEFT + n * width
        parts.append(svg.text(x, 4, figure + was(old_figure, figure), class_="mv-strong"))
        parts.append(svg.text(x, 20, name, class_="mv-small mv-faint"))
    return svg.joined(parts)
