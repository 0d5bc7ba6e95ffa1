"""Draws some requests' bills to a common scale: tokens and blocks per step, and the time per phase."""

from collections.abc import Sequence
from dataclasses import replace

from mini_vllm_labs.notebook.notice import Notice
from mini_vllm_labs.notebook.recorded_mark import marked_picture
from mini_vllm_labs.notebook.serving.bill import PHASES, WAITING, Bill, Item, ServedRun, bill_in
from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.parts import LEFT, WIDTHS, Part, heading, page, span_of, stacked
from mini_vllm_labs.pictures.picture import WIDTH, Layer, Legend, Picture
from mini_vllm_labs.pictures.quantities import seconds
from mini_vllm_labs.pictures.step_axis import AXIS, StepAxis
from mini_vllm_labs.pictures.svg import Markup
from mini_vllm_labs.pictures.text import counted, facts
from mini_vllm_labs.pictures.tiles import tile
from mini_vllm_labs.pictures.typeset import text_width
from mini_vllm_labs.runs.palette import color, ink_on

HIGH, GAP, BLOCKS, TIME, LINE = 20, 10, 66, 14, 16
MAX_CELL, MIN_SEPARATE_CELL = 11.0, 4.0
SIZE = 12
PALE = 0.3
ENDS = {"stop": "", "length": "", "abort": ", hung up", "error": ", failed", "": ", not finished"}
LEGEND: Legend = {
    "tokens": [
        (
            svg.joined([svg.rect(0, 0, 14, 10, rx=2, fill=color(0)), svg.hatch(0, 0, 14, 10, stroke=ink_on(0))]),
            "prompt",
        ),
        (svg.rect(0, 0, 14, 10, rx=2, fill=color(0)), "answer"),
        (svg.rect(0.5, 0.5, 13, 9, rx=2, class_="mv-rule"), "waiting"),
    ],
    "blocks": [
        (svg.rect(0, 0, 14, 10, fill=color(0)), "taken"),
        (svg.rect(0, 0, 14, 10, fill=color(0), fill_opacity=PALE), "found in the cache"),
    ],
}


def draw_bills(run: ServedRun | Notice, *labels: str) -> Picture | Notice:
    """Draw the bills of the requests with these labels in a column, or return `run` if it is a `Notice`.

    Raises `ValueError` if no request has one of the labels.
    """
    if isinstance(run, Notice):
        return run
    bills = [bill_in(run, label) for label in labels]
    if not bills:
        raise ValueError("draw_bills needs the label of at least one request, such as 'A'")
    wide, narrow = (drawing(bills, width) for width in (WIDTH, WIDTHS[0]))
    return marked_picture(replace(wide, narrow=narrow), run.recorded)


def drawing(bills: Sequence[Bill], width: float) -> Picture:
    most_steps, max_held_blocks = (
        max(map(of, bills)) for of in (lambda bill: len(bill.items), lambda bill: bill.max_held_blocks)
    )
    longest = max((sum(bill.times) for bill in bills), default=0.0)
    parts = [stacked(bill_parts(bill, most_steps, max_held_blocks, longest, width), f"{bill.label}-") for bill in bills]
    title = "The bill of " + " and ".join(bill.label for bill in bills)
    return page(title, parts, " ".join(map(sentence, bills)), "\n".join(map(text_of, bills)), width)


def bill_parts(bill: Bill, most_steps: int, max_held_blocks: int, longest: float, width: float) -> list[Part]:
    """Draw one request: a headline, its tokens, its blocks, the step numbers, and its time."""
    first = bill.items[0].step if bill.items else 0
    room = span_of(width)
    whole = StepAxis.even(most_steps, room, first)
    axis = replace(whole, edges=whole.edges[: len(bill.items) + 1])
    asked = (
        f"{counted(bill.num_prompt_tokens, 'token')} of prompt, {counted(bill.num_output_tokens, 'token')} of answer"
    )
    name = svg.joined([tile(bill.index, bill.label, 12, 6, 24, HIGH), svg.text(44, 21, asked + ENDS.get(bill.end, ""))])
    return [
        Part([Layer("name", name)], HIGH + 14),
        tokens_part(bill, axis),
        blocks_part(bill, axis, max_held_blocks),
        Part([heading("steps", "step", 14), Layer("steps", axis.numbers(), LEFT)], AXIS + 8),
        *([time_part(bill, longest, room)] if bill.times else []),
    ]


def tokens_part(bill: Bill, axis: StepAxis) -> Part:
    drawn = [svg.group(svg.tooltip(tokens_text(bill, item)), tokens_tile(bill, item, axis)) for item in bill.items]
    return Part([heading("tokens", "tokens", 14), Layer("tokens", svg.joined(drawn), LEFT)], HIGH + GAP, LEGEND)


def tokens_tile(bill: Bill, item: Item, axis: StepAxis) -> Markup:
    """Draw one step's box, outlined if the request is waiting."""
    x, wide = axis.x(item.step) + 0.5, max(1.0, axis.width(item.step) - 1)
    if item.kind == WAITING:
        return svg.rect(x + 0.5, 0.5, wide - 1, HIGH - 1, rx=2, class_="mv-rule")
    return tile(bill.index, str(item.num_tokens), x, 0, wide, HIGH, hatched=item.kind == "prefill")


def blocks_part(bill: Bill, axis: StepAxis, max_held_blocks: int) -> Part:
    """Draw the blocks held in each step, with those found in the cache paler and at the bottom."""
    cell = min(MAX_CELL, (BLOCKS - LINE) / max(1, max_held_blocks))
    high = cell * max_held_blocks + LINE
    drawn, before, end = list[Markup](), 0, -1.0
    for item in bill.items:
        drawn.append(svg.group(svg.tooltip(tokens_text(bill, item)), column(bill, item, axis, cell, high)))
        word = str(item.num_blocks)
        middle, half = axis.middle(item.step), text_width(word, SIZE) / 2
        if item.num_blocks != before and middle - half > end:
            drawn.append(svg.text(middle, high - item.num_blocks * cell - 3, word, class_="mv-middle"))
            end = middle + half
        before = item.num_blocks
    ground = svg.line(0, high + 0.5, axis.edges[-1], high + 0.5, class_="mv-rule")
    layers = [heading("blocks", "blocks", high - 2), Layer("blocks", svg.joined([ground, *drawn]), LEFT)]
    return Part(layers, high + 4)


def column(bill: Bill, item: Item, axis: StepAxis, cell: float, high: float) -> Markup:
    x, wide = axis.x(item.step) + 0.5, max(1.0, axis.width(item.step) - 1)
    apart = 1 if cell >= MIN_SEPARATE_CELL else 0
    return svg.joined(
        svg.rect(
            x,
            high - (place + 1) * cell + apart,
            wide,
            cell - apart,
            fill=color(bill.index),
            fill_opacity=PALE if place < bill.num_cached_blocks else None,
        )
        for place in range(item.num_blocks)
    )


def time_part(bill: Bill, longest: float, room: float) -> Part:
    """Draw the time of each phase as a bar with figures below."""
    drawn, x = list[Markup](), 0.0
    # an unfinished request has not reached the later phases
    for phase, duration in zip(PHASES, bill.times, strict=False):
        wide = room * duration / longest if longest else 0.0
        if phase == "queued":
            box = svg.rect(x + 0.5, 0.5, wide - 1, TIME - 1, class_="mv-rule")
        else:
            box = tile(bill.index, "", x, 0, wide, TIME, hatched=phase == "prefill")
        drawn.append(svg.group(svg.tooltip(f"{phase}: {seconds(duration)}"), box))
        x += wide
    drawn.append(svg.text(0, TIME + 15, times_text(bill)))
    return Part([heading("time", "time", 12), Layer("time", svg.joined(drawn), LEFT)], TIME + 28)


def times_text(bill: Bill) -> str:
    named = [f"{phase} {seconds(duration)}" for phase, duration in zip(PHASES, bill.times, strict=False)]
    return f"{', '.join(named)}: {seconds(sum(bill.times))}"


def tokens_text(bill: Bill, item: Item) -> str:
    if item.kind == WAITING:
        return f"step {item.step}: {bill.label} waits"
    return f"step {item.step}: {counted(item.num_tokens, 'token')}, {item.kind}; {counted(item.num_blocks, 'block')}"


def sentence(bill: Bill) -> str:
    computed = f"{counted(bill.num_computed, 'token')} computed in {counted(bill.num_steps, 'step')}"
    waited = f" after waiting for {counted(bill.num_waited, 'step')}" if bill.num_waited else ""
    hit = f", {bill.num_cached_tokens} more were in the cache" if bill.num_cached_tokens else ""
    blocks = f"at most {counted(bill.max_held_blocks, 'block')}, {bill.block_steps} blocks over all steps"
    return f"{bill.label}: {computed}{waited}{hit}; {blocks}."


def text_of(bill: Bill) -> str:
    shares = (f"{i.step} {i.kind} {i.num_tokens}" if i.num_tokens else f"{i.step} {i.kind}" for i in bill.items)
    lines: list[tuple[str, object]] = [
        ("prompt tokens", bill.num_prompt_tokens),
        ("from the cache", bill.num_cached_tokens),
        ("answer tokens", bill.num_output_tokens),
        ("computed tokens", bill.num_computed),
        ("steps", bill.num_steps),
        ("steps waited", bill.num_waited),
        ("ended", bill.end or "not yet"),
        ("tokens in each step", ", ".join(shares)),
        ("blocks in each step", " ".join(str(item.num_blocks) for item in bill.items)),
        ("blocks from the cache", bill.num_cached_blocks),
        ("most blocks", bill.max_held_blocks),
        ("blocks over all steps", bill.block_steps),
        *([("time", times_text(bill))] if bill.times else []),
    ]
    return facts((f"{bill.label}, {name}", value) for name, value in lines)
