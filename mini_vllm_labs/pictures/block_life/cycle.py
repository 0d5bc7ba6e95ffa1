"""Draws the four states of blocks, with the number of blocks in each and the moves in this step."""

from collections.abc import Mapping
from dataclasses import dataclass

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.block_life.moves import Moves
from mini_vllm_labs.pictures.parts import Part
from mini_vllm_labs.pictures.picture import WIDTH, Layer
from mini_vllm_labs.pictures.text import counted

HIGH, LOWER, UPPER, HEAD = 40, 94, 74, 4
FREE, HELD, SHARED, KEPT = "free, empty", "held", "shared", "free, content kept"
Way = tuple[float, float, float]  # an arrow's start, end and cross-axis coordinate


@dataclass(frozen=True)
class Places:
    """The (left, right, top) of each state's box, and the horizontal and vertical arrows between the boxes."""

    boxes: Mapping[str, tuple[float, float, float]]
    sideways: Mapping[str, Way]
    up_and_down: Mapping[str, Way]
    height: float


WIDE = Places(
    {FREE: (12, 110, 0), HELD: (212, 508, 0), SHARED: (610, 708, 0), KEPT: (212, 508, LOWER)},
    {
        "handed out": (110, 212, 12),
        "given back, empty": (212, 110, 28),
        "hit while held": (508, 610, 12),
        "holders left": (610, 508, 28),
    },
    {
        "given back, content kept": (HIGH, LOWER, 220),
        "found by a hit": (LOWER, HIGH, 332),
        "handed out, content forgotten": (LOWER, HIGH, 402),
    },
    LOWER + HIGH,
)
NARROW = Places(
    {FREE: (12, 86, UPPER), HELD: (172, 448, UPPER), SHARED: (172, 448, 0), KEPT: (172, 448, UPPER + LOWER)},
    {"handed out": (86, 172, UPPER + 12), "given back, empty": (172, 86, UPPER + 28)},
    {
        "hit while held": (UPPER, HIGH, 228),
        "holders left": (HIGH, UPPER, 328),
        "given back, content kept": (UPPER + HIGH, UPPER + LOWER, 180),
        "found by a hit": (UPPER + LOWER, UPPER + HIGH, 288),
        "handed out, content forgotten": (UPPER + LOWER, UPPER + HIGH, 352),
    },
    UPPER + LOWER + HIGH,
)
NAMES = {
    "handed out": ["handed out"],
    "given back, empty": ["given back"],
    "hit while held": ["hit"],
    "holders left": ["left to one"],
    "given back, content kept": ["given back,", "content stays"],
    "found by a hit": ["found", "by a hit"],
    "handed out, content forgotten": ["handed out,", "content lost"],
}


def counts(moves: Moves) -> dict[str, int]:
    held = len(moves.holders) - len(moves.shared)
    return {FREE: len(moves.empty), HELD: held, SHARED: len(moves.shared), KEPT: len(moves.kept)}


def arrows(moves: Moves) -> dict[str, int]:
    kept, forgotten = set(moves.kept), set(moves.forgotten)
    return {
        "handed out": sum(block not in forgotten for _, blocks in moves.handed_out for block in blocks),
        "given back, empty": sum(block not in kept for block in moves.all_given_back),
        "hit while held": sum(len(blocks) for _, blocks in moves.found) - len(moves.found_free),
        "holders left": len(moves.parted),
        "given back, content kept": sum(block in kept for block in moves.all_given_back),
        "found by a hit": len(moves.found_free),
        "handed out, content forgotten": len(forgotten),
    }


def cycle_part(moves: Moves, width: float) -> Part:
    """Draw the states as boxes and the moves between them as arrows, bold if used in this step."""
    num, taken, places = counts(moves), arrows(moves), WIDE if width >= WIDTH else NARROW
    ways = {True: places.sideways, False: places.up_and_down}
    drawn = [
        arrow(name, place, taken[name], is_sideways=sideways)
        for sideways, some in ways.items()
        for name, place in some.items()
    ]
    x = max(0, (width - WIDTH) / 2)
    during = {HELD: sum(len(users) == 1 for users in moves.in_use.values())}
    during[SHARED] = len(moves.in_use) - during[HELD]
    layers = [
        Layer(f"state-{k}", box(name, during.get(name, num[name]), num[name], *place), x, 16)
        for k, (name, place) in enumerate(places.boxes.items())
    ]
    return Part([*layers, *[Layer(f"way-{k}", way, x, 16) for k, way in enumerate(drawn)]], places.height + 26)


def box(name: str, during: int, num_blocks: int, left: float, right: float, top: float) -> svg.Markup:
    """Draw a state with its block counts during and after the step; dashed boxes contain blocks in the free queue."""
    number = str(num_blocks) if during == num_blocks else f"{during} → {num_blocks}"
    dashes = "4 3" if name.startswith("free") else None
    middle = (left + right) / 2
    return svg.group(
        svg.tooltip(f"{counted(num_blocks, 'block')} after the step: {name}"),
        svg.rect(left, top, right - left, HIGH, rx=6, class_="mv-panel"),
        svg.rect(left, top, right - left, HIGH, rx=6, class_="mv-line", stroke_dasharray=dashes, opacity=0.5),
        svg.text(middle, top + 17, number, class_="mv-middle mv-title"),
        svg.text(middle, top + 33, name, class_="mv-middle"),
    )


def arrow(name: str, place: Way, num_blocks: int, *, is_sideways: bool) -> svg.Markup:
    """Draw an arrow and its name, preceded by the number of blocks that moved along it."""
    start, end, cross = place
    sign, middle, names = 1 if end > start else -1, (start + end) / 2, NAMES[name]
    first, tip, back = start + sign * 3, end - sign * 3, -sign * HEAD
    if is_sideways:
        shaft = f"M{first:g} {cross}H{tip:g}m{back} {-HEAD}l{-back} {HEAD}l{back} {HEAD}"
        x, y, anchor = middle, cross - 7 if sign > 0 else cross + 17, "mv-middle"
    else:
        shaft = f"M{cross:g} {first:g}V{tip:g}m{-HEAD} {back}l{HEAD} {-back}l{HEAD} {back}"
        x, y, anchor = cross + 8, middle + 11 - 7 * len(names), ""
    stroke, ink = ("mv-line", "mv-strong") if num_blocks else ("mv-rule", "mv-faint")
    if num_blocks and name == "handed out, content forgotten":
        stroke, ink = "mv-alert-line", "mv-strong mv-alert"
    lines = [f"{num_blocks} {names[0]}" if num_blocks else names[0], *names[1:]]
    named = [svg.text(x, y + 14 * k, line, class_=f"{ink} {anchor}") for k, line in enumerate(lines)]
    return svg.joined([svg.path(shaft, class_=stroke, stroke_width=2.5 if num_blocks else 1.5), *named])
