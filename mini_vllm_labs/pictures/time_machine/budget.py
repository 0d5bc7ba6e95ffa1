"""Draws a step's token budget: tokens granted to each request, tokens taken back, and tokens hit in the cache."""

from collections.abc import Sequence
from itertools import accumulate

from mini_vllm.core.step_record import ScheduledRecord
from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.parts import LEFT, MARGIN, Part, heading, span_of
from mini_vllm_labs.pictures.picture import Layer
from mini_vllm_labs.pictures.text import counted
from mini_vllm_labs.pictures.tiles import tile
from mini_vllm_labs.pictures.time_machine.queues import record_of
from mini_vllm_labs.pictures.typeset import first_fitting, text_width
from mini_vllm_labs.runs.palette import color
from mini_vllm_labs.runs.traces.drafts import STAND_IN
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.traces.run_state import RunState
from mini_vllm_labs.runs.traces.sentences import is_stuck

FIGURE = 84
HIGH = 26
HITS_HEIGHT = 18
MIN_SEGMENT_WIDTH = 13.0
PREFILL = (svg.group(svg.hatch(0, 0, 14, 10, 5), svg.rect(0, 0, 14, 10), class_="mv-line"), "prefill")
DECODE = (svg.rect(0, 0, 14, 10, class_="mv-ink", opacity=0.7), "decode")
CROSSED = svg.path("M0 0L14 10M0 10L14 0", class_="mv-alert-line", stroke_width=1.5)
UNDONE = (svg.joined([svg.rect(0.5, 0.5, 13, 9, class_="mv-line"), CROSSED]), "plan undone")
HIT = (svg.rect(1, 1, 12, 8, class_="mv-line", stroke_width=2, stroke_dasharray="3 2"), "in the cache, not computed")


def with_hits(runs: Sequence[Recording]) -> bool:
    """Return whether any request in the runs hits tokens in the prefix cache."""
    return any(share.get("hit") for run in runs for record in run.steps for share in record["scheduled"])


def budget_part(state: RunState, width: float, *, hits: bool) -> Part:
    """Draw the bar: shares in order, undone plans crossed out, the remainder empty; `hits` adds a line below for
    hits."""
    record, info, bar = record_of(state), state.info, span_of(width) - FIGURE
    shares, undone = record["scheduled"], [(victim, n) for victim, _, n in record["preempted"] if n]
    widths = fitted([*(share["n"] for share in shares), *(n for _, n in undone)], info.token_budget, bar)
    edges = list(accumulate(widths, initial=0.0))
    drawn = [one_share(state, share, x, wide) for share, x, wide in zip(shares, edges, widths, strict=False)]
    for (victim, num_tokens), x, wide in zip(undone, edges[len(shares) :], widths[len(shares) :], strict=False):
        drawn.append(undone_share(state, victim, num_tokens, x, wide))
    told = f"undone: {', '.join(f'{info.label(victim)} {num_tokens}' for victim, num_tokens in undone)}"
    if undone and edges[-1] + text_width(told, 12) + 8 <= bar:
        drawn.append(svg.text(edges[-1] + 6, HIGH / 2 + 4, told, class_="mv-faint"))
    if is_stuck(record):
        drawn.append(svg.rect(1, 1, bar - 2, HIGH - 2, rx=3, class_="mv-alert-line mv-stuck", stroke_width=2))
        words = "stuck: nothing can move"
        drawn.append(svg.text(bar / 2, HIGH / 2 + 4, words, class_="mv-middle mv-strong mv-alert"))
    figure = f"{record['total']} of {info.token_budget}"
    layers = [
        heading("budget", "token budget", HIGH / 2 + 4),
        Layer("budget-ground", svg.rect(0, 0, bar, HIGH, rx=3, class_="mv-panel"), x=LEFT),
        Layer("budget", svg.joined(drawn), x=LEFT),
        Layer("budget-figure", svg.text(width - MARGIN, HIGH / 2 + 4, figure, class_="mv-end")),
    ]
    height = HIGH + 4
    if hits:
        layers.append(Layer("budget-hits", hit_shares(state, bar), LEFT, height))
        height += HITS_HEIGHT + 4
    return Part(layers, height + 6, {"token budget": [PREFILL, DECODE, UNDONE, *([HIT] if hits else [])]})


def fitted(amounts: Sequence[int], budget: int, bar: float) -> list[float]:
    """Return widths in proportion to the budget, each at least as wide as a letter if the bar has room."""
    scale, least = bar / max(budget, sum(amounts), 1), min(MIN_SEGMENT_WIDTH, bar / max(1, len(amounts)))
    widths = [max(least, scale * amount) for amount in amounts]
    excess = sum(widths) - bar
    if excess <= 0:
        return widths
    wide = sum(width - least for width in widths)
    return [least + (width - least) * (1 - excess / wide) for width in widths] if wide else widths


def one_share(state: RunState, share: ScheduledRecord, x: float, width: float) -> svg.Markup:
    index, label = state.info.index(share["id"]), state.info.label(share["id"])
    decode, num_tokens = state.is_decode(share), share["n"]
    kind = "decode" if decode else "prefill"
    name = first_fitting((f"{label} {num_tokens}", label), width - 4, bold=True)
    return svg.group(
        svg.tooltip(f"{label}: {counted(num_tokens, 'token')}, {kind}{of_drafts(share)}"),
        tile(index, name, x + 0.5, 0, width - 1, HIGH, hatched=not decode),
        data_request=str(index),
        data_kind=kind,
        class_="mv-link",
    )


def of_drafts(share: ScheduledRecord) -> str:
    """Describe how many drafts, or slots for drafts, a share contains; return an empty string if there are none."""
    drafts = share.get("drafts", [])
    kind = "place" if STAND_IN in drafts else "draft"
    where = " for drafts" if STAND_IN in drafts else ""
    return f", {counted(len(drafts), kind)}{where} among them" if drafts else ""


def undone_share(state: RunState, victim: str, num_tokens: int, x: float, width: float) -> svg.Markup:
    """Draw the crossed-out share of a victim whose tokens were returned to the budget."""
    label = state.info.label(victim)
    about = f"{label}: preempted, {counted(num_tokens, 'planned token')} returned to the budget"
    data = f"M{x + 2:.1f} 2L{x + width - 2:.1f} {HIGH - 2}M{x + 2:.1f} {HIGH - 2}L{x + width - 2:.1f} 2"
    cross = svg.path(data, class_="mv-alert-line mv-undone", stroke_width=2)
    names = (f"{label} {num_tokens}", label)
    return outlined(state.info.index(victim), "undone", about, names, x, width, HIGH, cross)


def hit_shares(state: RunState, bar: float) -> svg.Markup:
    """Draw the outlined shares of tokens hit in the prefix cache, on the bar's scale if they fit."""
    found = [(share["id"], share["hit"]) for share in record_of(state)["scheduled"] if share.get("hit")]
    if not found:
        return svg.text(0, HITS_HEIGHT / 2 + 4, "no tokens from the prefix cache", class_="mv-faint")
    parts, x = list[svg.Markup](), 0.0
    widths = fitted([n for _, n in found], state.info.token_budget, bar)
    for (request_id, num_tokens), width in zip(found, widths, strict=True):
        label = state.info.label(request_id)
        about = f"{label}: {counted(num_tokens, 'token')} found in the prefix cache, not computed"
        names = (f"{label} {num_tokens} in the cache", f"{label} {num_tokens}", label)
        parts.append(outlined(state.info.index(request_id), "hit", about, names, x, width, HITS_HEIGHT))
        x += width
    return svg.joined(parts)


def outlined(
    index: int, kind: str, about: str, names: Sequence[str], x: float, width: float, high: float, *more: svg.Markup
) -> svg.Markup:
    """Draw a share that is not computed: a frame in the request's colour around the first name that fits."""
    style, dashes = f"stroke:{color(index)};stroke-width:2", "4 2" if kind == "hit" else None
    return svg.group(
        svg.tooltip(about),
        svg.rect(x + 1.5, 1, width - 3, high - 2, rx=3, class_="mv-paper", style=style, stroke_dasharray=dashes),
        svg.text(x + width / 2, high / 2 + 4, first_fitting(names, width - 4, bold=True), class_="mv-middle"),
        *more,
        data_request=str(index),
        data_kind=kind,
        class_="mv-link",
    )
