"""Draws two latency distributions below the knobs, with those of the previous setting as ghosts."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mini_vllm_labs.pictures import chart, svg
from mini_vllm_labs.pictures.chart import LABEL, MARGIN, ChartFrame, LogScale, PercentScale
from mini_vllm_labs.pictures.chunking_dial.trial import MARKED, Deployment, Percentiles, Setting, Trial, try_setting
from mini_vllm_labs.pictures.knobs import Menu, Slider
from mini_vllm_labs.pictures.picture import WIDTH, Layer, Picture
from mini_vllm_labs.pictures.quantities import digits, round_seconds, seconds
from mini_vllm_labs.pictures.text import facts
from mini_vllm_labs.pictures.typeset import shorten
from mini_vllm_labs.runs.palette import OKABE_ITO
from mini_vllm_labs.simulation.experiment import Experiment

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.panels import Panel


KNOBS = (
    Slider("max_num_batched_tokens", "max_num_batched_tokens", 2048, 256, 8192, 256, "tokens"),
    Slider("long_prefill_token_threshold", "long_prefill_token_threshold", 0, 0, 4096, 128, "tokens", "none"),
    Slider("max_num_seqs", "max_num_seqs", 256, 8, 256, 8, "requests"),
    Slider("load", "load", 90, 50, 120, 5, "%"),
    Menu("workload", "workload", "mixed", ("mixed", "documents", "burst", "chat")),
)
AXIS, GAP, FROM_TITLE, BELOW = 50, 30, 44, 34
NARROW = 620  # below this width, the charts are stacked vertically
LATENCIES = {"request": "Time to first token", "token": "Inter-token latency"}
COLOUR = OKABE_ITO[4][0]
MAX_NAMED = 2  # how many knobs a sentence names; if there are more, it only gives their number


def chunking_dial(gpu: str = "H100", model: str = "Llama-3.1-8B", num_requests: int = 2_000) -> "Panel":
    """Return knobs above the latencies of a simulated deployment, with the previous setting's latencies as a ghost.

    Raises `ValueError` for a GPU or a model that is not in the simulator's tables, or for a model that does not fit.
    """
    from mini_vllm_labs.pictures.panels import Panel

    Experiment(gpu=gpu, model=model).require_legal()
    deployment = Deployment(gpu, model, num_requests)

    def draw(*, width: float = WIDTH, before: dict[str, Any] | None = None, **values: Any) -> Picture:
        now, earlier = try_setting(Setting(**values), deployment), None
        with suppress(ValueError):  # the previous setting may have been invalid
            earlier = try_setting(Setting(**before), deployment) if before else None
        return chunking_picture(now, earlier, width)

    return Panel(KNOBS, draw, reflows=True)


def chunking_picture(now: Trial, before: Trial | None = None, width: float = WIDTH) -> Picture:
    """Draw the latencies for the current setting and the previous setting."""
    heading, y = chart.head(title(now.setting), [circumstances(now)], width)
    first = before.times_to_first_token if before else None
    between = before.inter_token_latencies if before else None
    (left, right), bottom = frames(width, y + 30)
    totals_y = bottom + BELOW + 24
    rest, below = totals_table(now, before or now, width)
    words, height = chart.foot(shortage(now), totals_y + below + 8, width, "mv-alert")
    layers = (
        Layer("headline", heading),
        Layer("curves", which_is_which(now, before, width), y=y + 8),
        Layer("time to first token", waiting("request", now.times_to_first_token, first, left)),
        Layer("inter-token latency", waiting("token", now.inter_token_latencies, between, right)),
        Layer("totals", rest, y=totals_y),
        words,
    )
    text = text_alternative(now, before)
    return Picture(title(now.setting), height, layers, sentence(now, before or now), text, width)


def frames(width: float, y: float) -> tuple[list[ChartFrame], float]:
    """Return the positions of the two charts below `y`, and the lower end of both."""
    top = y + FROM_TITLE
    if width >= NARROW:
        middle, bottom = width / 2, top + 200.0
        left = ChartFrame(MARGIN + AXIS, middle - GAP / 2, top, bottom)
        return [left, ChartFrame(middle + GAP / 2 + AXIS - MARGIN, width - MARGIN, top, bottom)], bottom
    high = 96
    second = top + high + BELOW + FROM_TITLE
    both = [ChartFrame(MARGIN + AXIS, width - MARGIN, start, start + high) for start in (top, second)]
    return both, second + high


def which_is_which(now: Trial, before: Trial | None, width: float) -> svg.Markup:
    parts = [svg.line(MARGIN, 8, MARGIN + 24, 8, stroke=COLOUR, stroke_width=2.5), svg.text(MARGIN + 30, 12, "now")]
    if before is not None:
        knobs = shorten(f"before: {previous(now, before)}", width - 2 * MARGIN - 100, LABEL)
        parts.append(svg.line(MARGIN + 70, 8, MARGIN + 94, 8, class_="mv-ghost", stroke_width=1.8))
        parts.append(svg.text(MARGIN + 100, 12, knobs, class_="mv-faint"))
    return svg.joined(parts)


def waiting(unit: str, now: Percentiles, before: Percentiles | None, place: ChartFrame) -> svg.Markup:
    """Draw one chart: the latency of each percentile of the requests or tokens."""
    left, right, earlier = place.left, place.right, before or now
    across = LogScale.around([*now.values(), *earlier.values()], left, right)
    up = PercentScale(place.bottom, place.top)
    parts = [
        svg.text(left, place.top - 28, LATENCIES[unit], class_="mv-strong"),
        svg.text(left, place.top - 12, f"p99: one {unit} in a hundred waits longer", class_="mv-faint"),
        chart.y_axis([(up(percent), f"p{percent:.0f}") for percent in MARKED], left, right),
        chart.x_axis(across, place.top, place.bottom, round_seconds),
    ]
    if before:
        points = [(across(value), up(percent)) for percent, value in before.items()]
        parts.append(chart.curve(points, class_="mv-ghost", stroke_width=1.8))
    parts.append(chart.curve([(across(v), up(p)) for p, v in now.items()], stroke=COLOUR, stroke_width=2.5))
    for percent in MARKED:
        point = across(now[percent]), up(percent)
        parts.append(chart.dot(point, COLOUR))
        words = now_and_was(percent, now, earlier)
        parts.append(chart.beside(point, across(earlier[percent]), words, left + 4, right))
    return svg.joined(parts)


def totals_table(now: Trial, earlier: Trial, width: float) -> tuple[svg.Markup, float]:
    columns = 4 if width >= NARROW else 2
    parts, room = [svg.line(MARGIN, -18, width - MARGIN, -18, class_="mv-rule")], (width - 2 * MARGIN) / columns
    for n, (figure, name) in enumerate(totals(now, earlier)):
        x, y = MARGIN + n % columns * room, n // columns * 40
        parts.append(svg.text(x, y + 2, figure, class_="mv-strong"))
        parts.append(svg.text(x, y + 18, name, class_="mv-faint"))
    return svg.joined(parts), 40.0 * (4 // columns) - 6


def title(setting: Setting) -> str:
    threshold = setting.long_prefill_token_threshold
    limit = f"at most {threshold:,} of one prompt per step" if threshold else "no limit for long prompts"
    return f"Token budget {setting.max_num_batched_tokens:,}, {limit}"


def circumstances(trial: Trial) -> str:
    setting, deployment = trial.setting, trial.deployment
    return (
        f"{deployment.num_requests:,} requests of {setting.workload!r}, {digits(trial.rate)} per second "
        f"({setting.load} % load), at most {setting.max_num_seqs} at once, {deployment.model} on {deployment.gpu}"
    )


def sentence(now: Trial, earlier: Trial) -> str:
    """Describe the changed knobs, the slowest 1% of both latencies, the throughput and any memory shortage."""
    first, old_first = now.times_to_first_token, earlier.times_to_first_token
    rate, old_rate = (f"{digits(trial.served.output_tokens_per_second)} tokens/s" for trial in (now, earlier))
    parts = [
        f"p50 time to first token {now_and_was(50, first, old_first)}",
        f"p99 time to first token {now_and_was(99, first, old_first)}",
        f"p99 inter-token latency {now_and_was(99, now.inter_token_latencies, earlier.inter_token_latencies)}",
        f"output {and_was(rate, old_rate)}",
    ]
    return " ".join(filter(None, [turned(now, earlier), f"{'; '.join(parts)}.", shortage(now)]))


def turned(now: Trial, earlier: Trial) -> str:
    differences = earlier.setting.differences(now.setting)
    if len(differences) > MAX_NAMED:
        return f"{len(differences)} knobs turned:"
    return ", ".join(f"{name} {old} → {new}" for name, old, new in differences) + ":" * bool(differences)


def previous(now: Trial, before: Trial) -> str:
    return ", ".join(f"{name} {was}" for name, was, _ in before.setting.differences(now.setting)) or "the same"


def shortage(trial: Trial) -> str:
    """Return a warning if K and V would not fit in the GPU's memory, otherwise an empty string."""
    if trial.served.peak_context_tokens <= trial.room_for_tokens:
        return ""
    return (
        f"Not realistic: the peak needs K and V of {trial.served.peak_context_tokens:,} tokens, and "
        f"{trial.room_for_tokens:,} fit. A real engine would preempt."
    )


def totals(now: Trial, earlier: Trial) -> list[tuple[str, str]]:
    """Return the run's totals as pairs: a figure (with its previous value) and its name."""
    figures = [
        (
            digits(trial.served.output_tokens_per_second),
            digits(trial.served.num_computed_tokens / trial.served.num_steps),
            f"{trial.served.num_steps:,}",
            f"{100 * trial.served.peak_context_tokens / trial.room_for_tokens:.0f} %",
        )
        for trial in (now, earlier)
    ]
    names = ("output tokens per second", "tokens per step", "steps", "peak use of KV memory")
    return [(and_was(new, old), name) for new, old, name in zip(*figures, names, strict=True)]


def text_alternative(now: Trial, before: Trial | None) -> str:
    earlier = before or now
    latencies = {
        "time to first token": (now.times_to_first_token, earlier.times_to_first_token),
        "inter-token latency": (now.inter_token_latencies, earlier.inter_token_latencies),
    }
    lines: list[tuple[str, object]] = [
        (f"{name} p{percent:.0f}", now_and_was(percent, *both))
        for name, both in latencies.items()
        for percent in MARKED
    ]
    lines += [(name, figure) for figure, name in totals(now, earlier)]
    if before:
        lines.append(("before", previous(now, before)))
    setting = f"{circumstances(now)}; simulated time, no prefix cache"
    return "\n".join([title(now.setting), setting, facts(lines), sentence(now, earlier)])


def now_and_was(percent: float, now: Percentiles, earlier: Percentiles) -> str:
    return and_was(seconds(now[percent]), seconds(earlier[percent]))


def and_was(now: str, earlier: str) -> str:
    """Return a figure, together with its previous value if that differs."""
    return now if earlier == now else f"{now}, was {earlier}"
