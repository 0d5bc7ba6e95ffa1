"""Draws the free queue during planning and after the step, head first, with the blocks that leave and return."""

from collections.abc import Sequence

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.block_life.moves import Moves
from mini_vllm_labs.pictures.parts import LEFT, Part, heading
from mini_vllm_labs.pictures.picture import Layer
from mini_vllm_labs.pictures.tiles import tile
from mini_vllm_labs.pictures.time_machine.free_queue import (
    CELL,
    HIGH,
    WIDE,
    both_ends,
    free_block,
    outline,
    places_in,
    queue_row,
)
from mini_vllm_labs.pictures.typeset import first_fitting
from mini_vllm_labs.runs.palette import color
from mini_vllm_labs.runs.traces.run_state import RunInfo

FIRST, SECOND, MIN_QUEUE_WIDTH = 20, 70, 276  # the names of both ends fit side by side


def queue_part(info: RunInfo, moves: Moves, owners_before: dict[int, str], width: float) -> Part:
    """Draw both rows. `owners_before` maps each block that had content before the step to the content's owner."""
    places = places_in(width)
    came = {block: giver for giver, blocks in moves.given_back for block in blocks}
    came_early = {block: giver for giver, blocks in moves.lost for block in blocks}

    def planned(block: int) -> svg.Markup:
        return leaving(info, moves, block, owners_before.get(block), came_early.get(block))

    def after(block: int) -> svg.Markup:
        return free_block(info, block, moves.kept.get(block), came.get(block))

    end = max(MIN_QUEUE_WIDTH, min(len(moves.while_planned), places) * WIDE - 4)
    ends = [
        svg.text(0, 12, "head: handed out next", class_="mv-faint"),
        svg.text(end, 12, "tail: given back last", class_="mv-faint mv-end"),
    ]
    layers = [
        heading("planned", "free queue", FIRST + HIGH / 2, "during the step"),
        heading("after", "", SECOND + HIGH / 2 - 8, "after the step"),
        Layer("ends", svg.joined(ends), LEFT),
        *queue_row("planned", moves.while_planned, places, planned, FIRST),
        *queue_row("after", moves.after, places, after, SECOND),
        Layer("came-early", brackets(info, moves.while_planned, moves.lost, places), LEFT, FIRST + HIGH + 5),
        Layer("came-in", brackets(info, moves.after, moves.given_back, places), LEFT, SECOND + HIGH + 5),
    ]
    return Part(layers, SECOND + HIGH + 28)


def leaving(info: RunInfo, moves: Moves, block: int, owner: str | None, giver: str | None) -> svg.Markup:
    """Draw a cell of the first row, in the colour of the request that takes the block in this step."""
    taker = moves.taker.get(block)
    if taker is None:
        return free_block(info, block, owner or moves.kept.get(block), giver)
    index, label = info.index(taker), info.label(taker)
    hit, lost = block in moves.found_free, block in moves.forgotten
    parts = [f"found by {label}" if hit else f"handed out to {label}"] + ["old content lost"] * lost
    parts += [f"given back by {info.label(giver)} just before"] if giver is not None else []
    drawn = [tile(index, str(block), 0, 0, CELL, HIGH), *([outline()] if giver is not None else [])]
    if hit:
        drawn.append(svg.path(f"M{CELL / 2 - 4:g} -6h8l-4 6z", class_="mv-ink mv-hit"))
    if lost:
        drawn.append(svg.path("M0 0H9L0 9Z", class_="mv-alert mv-lost"))
    data = {"data_block": str(block), "data_request": str(index), "data_move": "out"}
    return svg.group(svg.tooltip(f"block {block}: {', '.join(parts)}"), *drawn, **data, class_="mv-link")


def brackets(
    info: RunInfo, queue: Sequence[int], given: Sequence[tuple[str, Sequence[int]]], places: int
) -> svg.Markup:
    """Draw a line under the blocks that each request gave back, labelled with the request's name."""
    shown, parts = both_ends(queue, places), []
    for giver, blocks in given:
        held = [place for place, block in enumerate(shown) if block in blocks]
        if not held:
            continue
        left, right, label = held[0] * WIDE, held[-1] * WIDE + CELL, info.label(giver)
        names = (f"from {label}, last block of its table first", f"from {label}")
        name = first_fitting(names, right - left) or label
        style = f"stroke:{color(info.index(giver))}"
        parts.append(svg.path(f"M{left:.1f} 0v4H{right:.1f}v-4", class_="mv-line", style=style, stroke_width=2))
        parts.append(svg.text((left + right) / 2, 16, name, class_="mv-middle"))
    return svg.joined(parts)
