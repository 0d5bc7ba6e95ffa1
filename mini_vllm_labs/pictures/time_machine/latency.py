"""Draws where each request's time went, and which tokens of a run were recomputed."""

from collections import Counter
from collections.abc import Mapping

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.bars import SMALL_WIDTH
from mini_vllm_labs.pictures.chart import foot
from mini_vllm_labs.pictures.picture import Layer, Picture
from mini_vllm_labs.pictures.text import counted, facts
from mini_vllm_labs.pictures.tiles import on_tile, tile
from mini_vllm_labs.pictures.typeset import text_width
from mini_vllm_labs.runs.palette import color, ink_on
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.traces.run_state import RunInfo, RunState

PARTS = {
    "queue": "in the queue",
    "out": "in the queue again, after a preemption",
    "prefill": "its prompt",
    "decode": "its answer",
    "again": "its tokens again",
    "prompts": "others' prompts in its steps",
    "batch": "others' answers in its steps",
    "skipped": "running, without a share",
}
"""What a request's time goes to, in the order of the bar."""
WORK, OTHERS = ("prefill", "decode", "again"), ("prompts", "batch", "skipped")
ENGINE = "all"
MARGIN, LEFT, RIGHT, TOP, ROW, BAR, LABEL = 10, 50, 40, 44, 22, 16, 12


def spent(recording: Recording) -> dict[str, Counter[str]]:
    """Return, for each request, how many tokens the engine computed between its arrival and its end, broken down by
    part.

    Tokens stand for time, because a step that computes more tokens takes longer.
    """
    state, parts = RunState(recording.info), {name: Counter[str]() for name in recording.info.titles}
    furthest: Counter[str] = Counter()
    present: set[str] = set()
    for record in recording.steps:
        present = (present | set(record["added"])) - set(record["aborted"])
        state.advance(record)
        shares, own = {share["id"]: share for share in record["scheduled"]}, dict[str, Counter[str]]()
        for name, share in shares.items():
            end = share["computed"] + share["n"]
            again = max(0, min(end, furthest[name]) - share["computed"])
            kind = "decode" if state.is_decode(share) else "prefill"
            own[name] = Counter({"again": again, kind: share["n"] - again})
            furthest[name] = max(furthest[name], min(end, state.num_tokens(name)))
        prompts = sum(one["prefill"] + one["again"] for one in own.values())
        running = {name for name, *_ in record["running_after"]}
        for name in present:
            if name in own:
                others = prompts - own[name]["prefill"] - own[name]["again"]
                parts[name] += own[name]
                parts[name] += Counter(prompts=others, batch=record["total"] - own[name].total() - others)
            else:
                kind = "skipped" if name in running else "out" if furthest[name] else "queue"
                parts[name][kind] += record["total"]
        present -= state.finished.keys()
    return parts


def latency_bars(recording: Recording, name: str, width: float = SMALL_WIDTH) -> Picture:
    """Draw a bar for each request that shows where its time went, and one bar for all computed tokens."""
    info, parts = recording.info, spent(recording)
    whole = Counter({kind: sum(each[kind] for each in parts.values()) for kind in WORK})
    scale = (width - LEFT - RIGHT - MARGIN) / max(1, whole.total(), *(each.total() for each in parts.values()))
    column = svg.text(width - MARGIN, 36, "tokens", class_="mv-end mv-faint")
    rows = [bar(info, i, each, scale, width, TOP + ROW * place) for place, (i, each) in enumerate(parts.items())]
    y = TOP + ROW * len(rows) + 6
    rows.append(bar(info, "", whole, scale, width, y))
    sentence = (
        f"The engine computed {counted(whole.total(), 'token')}, {whole['again']} of them again "
        f"({whole['again'] / max(1, whole.total()):.0%})."
    )
    words, height = foot(sentence, y + ROW + 14, width)
    title = svg.text(MARGIN, 20, name, class_="mv-strong", font_size=13)
    layers = (Layer("heading", svg.joined([title, column])), Layer("rows", svg.joined(rows)), words)
    lines = facts([*((info.label(i), in_words(each)) for i, each in parts.items()), (ENGINE, in_words(whole))])
    return Picture(name, height - 4, layers, sentence, "\n".join([name, lines, sentence]), width)


def bar(info: RunInfo, request_id: str, parts: Mapping[str, int], scale: float, width: float, y: float) -> svg.Markup:
    index = info.index(request_id) if request_id else None
    head = svg.text(MARGIN, 12, ENGINE) if index is None else tile(index, info.label(request_id), MARGIN, 0, 32, BAR)
    drawn, x = [svg.tooltip(in_words(parts)), head], float(LEFT)
    for kind in PARTS:
        if long := parts.get(kind, 0) * scale:
            drawn.append(piece(kind, index, x, long, str(parts[kind])))
            x += long
    total = svg.text(width - MARGIN, BAR - 4, f"{sum(parts.values()):,}", class_="mv-end mv-strong")
    return svg.group(*drawn, total, transform=svg.at(0, y))


def piece(kind: str, index: int | None, x: float, long: float, words: str) -> svg.Markup:
    """Draw one part: outlined for waiting, solid for the request's tokens, hatched for a prompt, grey for others'
    tokens."""
    own, drawn = index if kind in WORK else None, []
    if kind in WORK:
        drawn.append(svg.rect(x, 0, long, BAR, fill="var(--mv-rule)" if own is None else color(own)))
    elif kind in OTHERS:
        drawn.append(svg.rect(x, 0, long, BAR, class_="mv-panel"))
    else:
        drawn.append(svg.rect(x + 0.75, 0.75, max(0.5, long - 1.5), BAR - 1.5, class_="mv-line mv-waits", rx=2))
    if kind in ("prefill", "prompts", "again"):
        drawn.append(svg.hatch(x, 0, long, BAR, 5, stroke="var(--mv-ink)" if own is None else ink_on(own)))
    if kind in ("again", "out"):
        drawn.append(svg.rect(x + 1, 1, max(0.5, long - 2), BAR - 2, class_="mv-alert-line", stroke_width=2))
    if text_width(words, LABEL) + 6 <= long and kind not in ("prefill", "prompts", "again"):
        middle, y = x + long / 2, BAR - 4
        plain = svg.text(middle, y, words, class_="mv-middle")
        drawn.append(plain if own is None else on_tile(own, middle, y, words))
    return svg.joined(drawn)


def in_words(parts: Mapping[str, int]) -> str:
    return ", ".join(f"{parts[kind]} {words}" for kind, words in PARTS.items() if parts.get(kind)) or "nothing"
