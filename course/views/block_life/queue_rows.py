"""The free queue while a step is planned and after it, head on the left: who leaves, and who comes in."""

from collections.abc import Sequence

from course.palette import color
from course.traces.run_state import RunInfo
from course.views import svg
from course.views.block_life.moves import Moves
from course.views.picture import Layer
from course.views.svg import Markup
from course.views.tiles import tile
from course.views.time_machine.parts import LEFT, SPAN, Part, heading
from course.views.typeset import shorten

SLOTS = 20
WIDE = SPAN / SLOTS
HIGH = 22
FIRST = 24
SECOND = 76
CELL = WIDE - 5
LEAST_END = 240


def queue_part(info: RunInfo, moves: Moves, owners_before: dict[int, str]) -> Part:
    """Return both rows. `owners_before` says whose content each block kept before the step."""
    came = {block: who for who, blocks in moves.given_back for block in blocks}
    came_early = {block: who for who, blocks in moves.lost for block in blocks}
    layers = [
        heading("planned", "free queue", FIRST + HIGH / 2, "during the step"),
        heading("after", "", SECOND + HIGH / 2 - 8, "after the step"),
        Layer("ends", ends_named(len(moves.while_planned)), LEFT),
    ]
    for name, y, queue in (("planned", FIRST, moves.while_planned), ("after", SECOND, moves.after)):
        shown = both_ends(queue)
        for place in range(SLOTS):
            content = Markup("")
            if place < len(shown):
                block = shown[place]
                if block is None:
                    content = gap(len(queue) - SLOTS + 1 if queue else 0)
                elif name == "planned":
                    content = leaving(info, moves, block, owners_before.get(block), came_early.get(block))
                else:
                    content = staying(info, block, moves.kept.get(block), came.get(block))
            layers.append(Layer(f"{name}-{place}", content, LEFT + place * WIDE, y))
    layers.append(Layer("came-early", brackets(info, moves.while_planned, moves.lost), LEFT, FIRST + HIGH + 5))
    layers.append(Layer("came-in", brackets(info, moves.after, moves.given_back), LEFT, SECOND + HIGH + 5))
    return Part(layers, SECOND + HIGH + 30)


def both_ends(queue: Sequence[int]) -> list[int | None]:
    """Return the blocks that fit in the row; None stands for the middle of a long queue, or for an empty one."""
    if len(queue) <= SLOTS:
        return list(queue) or [None]
    return [*queue[: SLOTS // 2], None, *queue[1 - SLOTS // 2 :]]


def ends_named(num_blocks: int) -> Markup:
    """Return the names of the two ends of a queue of so many blocks."""
    end = max(LEAST_END, min(num_blocks, SLOTS) * WIDE - 5)
    head = svg.text(0, 12, "head: handed out next", class_="mv-small mv-faint")
    return svg.joined([head, svg.text(end, 12, "tail: given back last", class_="mv-small mv-faint mv-end")])


def gap(num_hidden: int) -> Markup:
    """Return what stands for blocks that are not shown."""
    words = f"+{num_hidden}" if num_hidden > 0 else "empty"
    return svg.text(CELL / 2, HIGH / 2 + 4, words, class_="mv-middle mv-small mv-faint")


def leaving(info: RunInfo, moves: Moves, block: int, owner: str | None, giver: str | None) -> Markup:
    """Return a place of the first row: in the colour of whoever takes the block in this step."""
    taker = moves.taker.get(block)
    if taker is None:
        return staying(info, block, owner or moves.kept.get(block), giver)
    index, label = info.index(taker), info.label(taker)
    hit, lost = block in moves.found_free, block in moves.forgotten
    how = f"found by {label}" if hit else f"handed out to {label}"
    drawn = [tile(index, str(block), 0, 0, CELL, HIGH)]
    words = f"block {block}: {how}{', what it held is forgotten' if lost else ''}"
    if giver is not None:
        words += f", given back by {info.label(giver)} just before"
        drawn.append(outline())
    if hit:
        drawn.append(svg.path(f"M{CELL / 2 - 4:g} -6h8l-4 6z", class_="mv-ink mv-hit"))
    if lost:
        drawn.append(svg.path("M0 0H9L0 9Z", class_="mv-alert mv-lost"))
    return svg.group(
        svg.tooltip(words), *drawn, data_block=str(block), data_request=str(index), data_move="out", class_="mv-link"
    )


def staying(info: RunInfo, block: int, owner: str | None, giver: str | None) -> Markup:
    """Return a free block: dashed in the colour of whose content it keeps, outlined if it has just come in."""
    kept = f", what {info.label(owner)} left in it can still be found" if owner is not None else ""
    new = f", given back by {info.label(giver)} in this step" if giver is not None else ""
    style = f"stroke:{color(info.index(owner))};stroke-width:2" if owner is not None else None
    return svg.group(
        svg.tooltip(f"block {block}: free{kept}{new}"),
        svg.rect(1, 1, CELL - 2, HIGH - 2, rx=3, class_="mv-panel", style=style, stroke_dasharray="3 2"),
        *([outline()] if giver is not None else []),
        svg.text(CELL / 2, HIGH / 2 + 4, str(block), class_="mv-middle"),
        data_block=str(block),
        data_request=str(info.index(owner)) if owner is not None else None,
        data_move="in" if giver is not None else None,
        class_="mv-link",
    )


def outline() -> Markup:
    """Return the frame of a block that has just come in."""
    return svg.rect(-1, -1, CELL + 2, HIGH + 2, rx=4, class_="mv-changed")


def brackets(info: RunInfo, queue: Sequence[int], given: Sequence[tuple[str, Sequence[int]]]) -> Markup:
    """Return a line under the blocks that each request gave back, and its name."""
    shown, parts = both_ends(queue), []
    for who, blocks in given:
        places = [place for place, block in enumerate(shown) if block in blocks]
        if not places:
            continue
        left, right = places[0] * WIDE, places[-1] * WIDE + CELL
        words = f"from {info.label(who)}, last block of its table first"
        name = next((w for w in (words, f"from {info.label(who)}") if shorten(w, right - left, 10.5) == w), "")
        line = f"M{left:.1f} 0v4H{right:.1f}v-4"
        parts.append(svg.path(line, class_="mv-line", style=f"stroke:{color(info.index(who))}", stroke_width=2))
        name = name or info.label(who)
        parts.append(svg.text((left + right) / 2, 16, name, class_="mv-small mv-middle"))
    return svg.joined(parts)
