"""Draws the growing prefix tree: a run's blocks with content, each after the block that it continues."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.film import Film, requests_of
from mini_vllm_labs.pictures.parts import MARGIN, WIDTHS, Part, headline_part, most_lines, page
from mini_vllm_labs.pictures.picture import Layer, Picture
from mini_vllm_labs.pictures.text import counted, spaced
from mini_vllm_labs.pictures.tiles import on_stripes, striped, tile
from mini_vllm_labs.pictures.time_machine.machine import headline, states
from mini_vllm_labs.pictures.time_machine.queues import record_of
from mini_vllm_labs.pictures.typeset import text_width
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.traces.run_state import RunState

ROOT = (0, 0)
Node = tuple[int, int]
"""A block, and how often it had been handed out before it got this content; block 0 is never handed out."""
BOX, FIRST, END, HIGH, MIDDLE, ROW, MAX_COLUMN = 34, 56, 20, 26, 13, 36, 96


@dataclass
class Tree:
    """A run's blocks, each with the block that it continues, its depth, and its last content."""

    parents: dict[Node, Node] = field(default_factory=dict)
    depths: dict[Node, int] = field(default_factory=lambda: {ROOT: 0})
    now: dict[int, Node] = field(default_factory=dict)

    def grow(self, state: RunState) -> list[Node]:
        """Add the blocks that the state's step allocated, and return them."""
        new = list[Node]()
        for share in record_of(state)["scheduled"]:
            for place, block in enumerate(share["blocks"]):
                if block in share["new_blocks"]:
                    node = (block, self.now.get(block, (block, 0))[1] + 1)
                    before = self.now[share["blocks"][place - 1]] if place else ROOT
                    self.parents[node], self.depths[node], self.now[block] = before, self.depths[before] + 1, node
                    new.append(node)
        return new

    def rows(self) -> dict[Node, int]:
        """Return the row of each node: a first child shares its parent's row, every other child gets a new row."""
        children = dict[Node, list[Node]]()
        for child, parent in self.parents.items():
            children.setdefault(parent, []).append(child)
        rows, last, open_nodes = dict[Node, int](), -1, [(ROOT, True)]
        while open_nodes:
            node, is_first = open_nodes.pop()
            last += node == ROOT or not is_first
            rows[node] = rows[self.parents[node]] if is_first and node != ROOT else last
            open_nodes += [(child, place == 0) for place, child in enumerate(children.get(node, ()))][::-1]
        return rows


def prefix_tree(recording: Recording) -> Film:
    """Return a film of the tree: each block's holders, the blocks kept without holders, and the blocks hit.

    The layout covers the whole run, so a block stays where it first appears. Raises `ValueError` if the run has no
    steps.
    """
    whole, told = Tree(), list[str]()
    for state in states(recording):
        whole.grow(state)
        told.append(sentence(state))
    drawn = {width: pictures(recording, whole, told, width) for width in WIDTHS}
    return Film.of(drawn, requests_of(recording.info))


def pictures(recording: Recording, whole: Tree, told: Sequence[str], width: float) -> list[Picture]:
    rows, tree, made, num_lines = whole.rows(), Tree(), list[Picture](), most_lines(told, width)
    column = min(MAX_COLUMN, (width - 2 * MARGIN - FIRST - END) / max(whole.depths.values()))
    wide = min(BOX, 0.7 * column)
    places = {node: (FIRST + (whole.depths[node] - 1) * column, float(rows[node] * ROW)) for node in rows}
    start = Layer("start", svg.text(0, MIDDLE + 4, "start", class_="mv-faint"), MARGIN)
    for state, words in zip(states(recording), told, strict=True):
        new = tree.grow(state)
        kept = state.holders().keys() | state.cached()
        alive = [tree.now[block] for block in sorted(kept) if block in tree.now]
        inner = {whole.parents[node] for node in alive}
        # Draw the deepest blocks first, because each block covers the ends of the lines leading to its children.
        in_order = sorted(alive, key=lambda node: -whole.depths[node])
        drawn = (draw_node(state, whole, node, places, wide, node in inner, node in new) for node in in_order)
        layers = [start, Layer("tree", svg.joined(drawn), MARGIN)]
        blocks = Part(layers, ROW * (1 + max(rows.values())) + 6, {"blocks": LEGEND})
        title, found = headline(state, len(told)), f"{state.num_hit_tokens} found in the tree"
        parts = [headline_part(title, f"{state.num_computed_tokens} tokens computed, {found}", width), blocks]
        text = "\n".join([f"what happens: {words}", *(about(state, whole, node) for node in alive)])
        made.append(page(f"Prefix tree, {title}", parts, words, text, width, num_lines))
    return made


def draw_node(
    state: RunState,
    whole: Tree,
    node: Node,
    places: Mapping[Node, tuple[float, float]],
    wide: float,
    is_inner: bool,
    is_new: bool,
) -> svg.Markup:
    """Draw a block and the line from its parent; stripes show its holders' colours, and dashes mean no holders."""
    (x, y), (left, above), info = places[node], places[whole.parents[node]], state.info
    holders = [info.index(i) for i in state.holders().get(node[0], [])]
    ends = [info.label(i) for i, table in state.tables.items() if table[-1:] == [node[0]]]
    bend = f"M{left + wide if whole.parents[node] != ROOT else BOX:.1f} {above + MIDDLE}H{x - 10:.1f}"
    edge = svg.path(f"{bend}V{y + MIDDLE}H{x:.1f}", class_="mv-rule", stroke_width=2)
    number = str(node[0]) if text_width(str(node[0]), 12, bold=True) <= wide else ""
    if holders:
        parts = [
            striped(holders, 0, 0, wide, HIGH),
            *([on_stripes(holders, wide / 2, MIDDLE + 4, number)] * bool(number)),
        ]
    else:
        frame = svg.rect(0.5, 0.5, wide - 1, HIGH - 1, rx=3, class_="mv-ghost")
        parts = [frame, svg.text(wide / 2, MIDDLE + 4, number, class_="mv-middle mv-faint")]
    if ends and not is_inner:
        parts.append(svg.text(wide + 6, MIDDLE + 4, spaced(ends), class_="mv-strong mv-cased"))
    if is_new:
        parts.append(svg.rect(-2, -2, wide + 4, HIGH + 4, rx=4, class_="mv-changed"))
    box = svg.group(svg.tooltip(about(state, whole, node)), *parts, data_id=f"node:{node[0]}:{node[1]}")
    return svg.group(edge, svg.group(box, transform=svg.at(x, y)), data_request=" ".join(map(str, holders)) or None)


LEGEND = [
    (tile(0, "", 0, 0, 14, 10), "held by a request"),
    (striped([0, 1], 0, 0, 14, 10), "shared"),
    (svg.rect(0.5, 0.5, 13, 9, class_="mv-ghost"), "free, content kept"),
    (svg.rect(1, 1, 12, 8, class_="mv-changed"), "new in this step"),
]


def sentence(state: RunState) -> str:
    """Describe the blocks that each admitted request hit and added, and the blocks that were lost."""
    told = []
    for share in record_of(state)["scheduled"]:
        name, size = state.info.label(share["id"]), state.info.block_size
        if share["kind"] != "running":
            found, added = share.get("hit", 0) // size, counted(len(share["new_blocks"]), "block")
            what = f"{counted(found, 'block')} of its prompt" if found else "nothing"
            told.append(f"{name} finds {what} in the tree and adds {added}.")
        elif share["new_blocks"]:
            told.append(f"{name} adds {counted(len(share['new_blocks']), 'block')}.")
    if lost := record_of(state)["evicted"]:
        told.append(f"Handed out again, old content lost: {spaced(lost)}.")
    return " ".join(told) or "Nothing is added to the tree."


def about(state: RunState, whole: Tree, node: Node) -> str:
    """Describe a block by its parent and its holders."""
    before, holders = whole.parents[node], state.holders().get(node[0])
    held = f"held by {spaced(map(state.info.label, holders))}" if holders else "free, content kept"
    return f"block {node[0]}: {f'continues block {before[0]}, ' * (before != ROOT)}{held}"
