"""The four states of a block, how many blocks are in each, and how many moved in this step."""

from course.views import svg
from course.views.block_life.moves import Moves
from course.views.picture import Layer
from course.views.svg import Markup
from course.views.time_machine.parts import Part

HIGH = 40
LOWER = 108
MIDDLE = (212, 508)
LEFT_BOX = (12, 110)
RIGHT_BOX = (610, 708)
HEAD = 4


def counts(moves: Moves) -> dict[str, int]:
    """Return the number of blocks in each state after the step, by the name of the state."""
    shared = len(moves.shared)
    return {
        "free, empty": len(moves.empty),
        "held": len(moves.holders) - shared,
        "shared": shared,
        "free, content kept": len(moves.kept),
    }


def arrows(moves: Moves) -> dict[str, int]:
    """Return how many blocks went each way in this step, by the name of the way."""
    kept, forgotten = set(moves.kept), set(moves.forgotten)
    return {
        "handed out": sum(block not in forgotten for _, blocks in moves.handed_out for block in blocks),
        "given back, empty": sum(block not in kept for block in moves.all_given_back),
        "hit while held": len(moves.found_held),
        "holders left": len(moves.parted),
        "given back, content kept": sum(block in kept for block in moves.all_given_back),
        "found by a hit": len(moves.found_free),
        "handed out, content forgotten": len(forgotten),
    }


def cycle_part(moves: Moves) -> Part:
    """Return the states as boxes and the ways between them as arrows; ways that were taken are strong."""
    num, ways = counts(moves), arrows(moves)
    (left, right), low = MIDDLE, LOWER
    boxes = [
        box("free, empty", num["free, empty"], *LEFT_BOX, 0),
        box("held", num["held"], left, right, 0),
        box("shared", num["shared"], *RIGHT_BOX, 0),
        box("free, content kept", num["free, content kept"], left, right, low),
    ]
    drawn = [
        across(LEFT_BOX[1], left, 12, ways["handed out"], "handed out", above=True),
        across(left, LEFT_BOX[1], 28, ways["given back, empty"], "given back", above=False),
        across(right, RIGHT_BOX[0], 12, ways["hit while held"], "hit", above=True),
        across(RIGHT_BOX[0], right, 28, ways["holders left"], "left to one", above=False),
        down(left + 16, HIGH, low, ways["given back, content kept"], ("given back,", "content stays")),
        down(left + 116, low, HIGH, ways["found by a hit"], ("found", "by a hit")),
        down(left + 194, low, HIGH, ways["handed out, content forgotten"], ("handed out,", "forgotten"), alert=True),
    ]
    layers = [Layer(f"state-{place}", content, y=16) for place, content in enumerate(boxes)]
    layers += [Layer(f"way-{place}", content, y=16) for place, content in enumerate(drawn)]
    return Part(layers, LOWER + HIGH + 32)


def box(name: str, num_blocks: int, left: float, right: float, top: float) -> Markup:
    """Return a state: dashed if its blocks lie in the free queue."""
    dashes = "4 3" if name.startswith("free") else None
    middle = (left + right) / 2
    return svg.group(
        svg.tooltip(f"{num_blocks} blocks: {name}" if num_blocks != 1 else f"1 block: {name}"),
        svg.rect(left, top, right - left, HIGH, rx=6, class_="mv-panel"),
        svg.rect(left, top, right - left, HIGH, rx=6, class_="mv-line", stroke_dasharray=dashes, opacity=0.5),
        svg.text(middle, top + 17, str(num_blocks), class_="mv-middle mv-title"),
        svg.text(middle, top + 33, name, class_="mv-middle mv-small"),
    )


def across(start: float, end: float, y: float, num_blocks: int, words: str, *, above: bool) -> Markup:
    """Return an arrow from side to side, with its words above or below."""
    sign = 1 if end > start else -1
    tip = end - sign * 3
    shaft = f"M{start + sign * 3:g} {y}H{tip:g}m{-sign * HEAD} {-HEAD}l{sign * HEAD} {HEAD}l{-sign * HEAD} {HEAD}"
    return way(shaft, [((start + end) / 2, y - 7 if above else y + 15, "mv-middle", words)], num_blocks)


def down(x: float, start: float, end: float, num_blocks: int, words: tuple[str, str], *, alert: bool = False) -> Markup:
    """Return an arrow down or up, with its words on the right."""
    sign = 1 if end > start else -1
    tip, middle = end - sign * 3, (start + end) / 2
    shaft = f"M{x:g} {start + sign * 3:g}V{tip:g}m{-HEAD} {-sign * HEAD}l{HEAD} {sign * HEAD}l{HEAD} {-sign * HEAD}"
    lines = [(x + 8, middle - 3, "", words[0]), (x + 8, middle + 10, "", words[1])]
    return way(shaft, lines, num_blocks, alert=alert)


def way(shaft: str, lines: list[tuple[float, float, str, str]], num_blocks: int, *, alert: bool = False) -> Markup:
    """Return an arrow and its words, with the number of blocks that went this way in front."""
    taken = bool(num_blocks)
    stroke = "mv-alert-line" if alert and taken else "mv-line" if taken else "mv-rule"
    ink = "mv-strong" if taken else "mv-faint"
    colour = " mv-alert" if alert and taken else ""
    told = [
        svg.text(
            x, y, f"{num_blocks} {words}" if place == 0 and taken else words, class_=f"mv-small {ink}{colour} {at}"
        )
        for place, (x, y, at, words) in enumerate(lines)
    ]
    return svg.joined([svg.path(shaft, class_=stroke, stroke_width=2.5 if taken else 1.5), *told])
