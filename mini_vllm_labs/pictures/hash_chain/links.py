"""Draws one block of a chain: its tokens above, its hash below, and an arrow from the previous hash."""

from collections.abc import Sequence
from dataclasses import dataclass

from mini_vllm.core.cdiv import cdiv
from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.hash_chain.chains import Chain, digest, kin
from mini_vllm_labs.pictures.text import counted, ordinal, spaced
from mini_vllm_labs.pictures.tiles import baseline, marks, on_tile
from mini_vllm_labs.pictures.typeset import first_fitting, text_width
from mini_vllm_labs.runs.palette import color

LEFT, MARGIN = 92, 12
MIN_WIDTH, MAX_WIDTH = 29, 138
TOKENS, SIZE, HASH = 16, 12, 22
MANY_ROWS = 7


@dataclass(frozen=True)
class ChainLayout:
    """The positions of the boxes in a picture.

    Boxes have room for `num_digits` digits of a hash and `token_lines` lines of tokens.
    """

    width: float
    column: float
    box: float
    num_shown: int
    token_lines: int
    num_digits: int
    gap: float
    name: float = 52

    @property
    def high(self) -> float:
        return HASH + TOKENS * self.token_lines

    def x(self, place: int) -> float:
        return LEFT + place * self.column


def layout_of(chains: Sequence[Chain], width: float) -> ChainLayout:
    """Lay out boxes as wide as the longest chain allows. Tokens are shown if they fit on one or two lines."""
    longest, most = max(len(chain.links) for chain in chains), int((width - MARGIN - LEFT) // MIN_WIDTH)
    columns = min(most, max(len(chain.links) + bool(chain.rest) for chain in chains))
    if longest > most - 1:
        columns = most
    column = min(MAX_WIDTH, (width - MARGIN - LEFT) / max(1, columns))
    box = column - (16 if column > 60 else 6)
    tokens = [link.token_ids for chain in chains for link in chain.links]
    fits = (lines for lines in (1, 2) if all(text_width(w, SIZE) <= box - 2 for t in tokens for w in split(t, lines)))
    num_digits = next(n for n in (8, 6, 4, 3) if n == 3 or text_width("0" * n, SIZE, bold=True) <= box - 2)
    gap = 14 if len(chains) < MANY_ROWS else 8
    return ChainLayout(width, column, box, min(longest, most - 1), next(fits, 0), num_digits, gap)


def split(token_ids: Sequence[int], lines: int) -> list[str]:
    long = cdiv(len(token_ids), lines)
    return [" ".join(map(str, token_ids[start : start + long])) for start in range(0, len(token_ids), long)]


def draw_link(
    chains: Sequence[Chain], number: int, place: int, layout: ChainLayout, looks_alike: bool, wrong: bool
) -> svg.Markup:
    """Draw a block; a dotted frame marks tokens that also appear above, and a red frame marks a wrong hash."""
    link = chains[number].links[place]
    x, top = layout.x(place), TOKENS * layout.token_lines
    tokens = " ".join(map(str, link.token_ids))
    named = digest(link, layout.num_digits)
    owner = chains[link.first].name
    about = f"{ordinal(place + 1)} block: {digest(link, 16)} for {tokens} and all before it; {owner} had it first"
    about += "; same tokens as above, other hash" * looks_alike + "; this hash is wrong" * wrong
    drawn = [svg.tooltip(about)]
    if layout.token_lines:
        drawn += [
            svg.rect(x, 0, layout.box, layout.high, rx=3, class_="mv-panel"),
            *token_text(chains, number, place, x + layout.box / 2, layout.token_lines),
        ]
    drawn += [
        svg.rect(x, top, layout.box, HASH, rx=3, fill=color(link.first)),
        marks(link.first, x, top, layout.box, HASH),
        on_tile(link.first, x + layout.box / 2, top + baseline(link.first, HASH), named),
    ]
    if looks_alike:
        dotted: dict[str, svg.Value] = {"class_": "mv-line mv-alike", "stroke_width": 2, "stroke_dasharray": "2 2"}
        drawn.append(svg.rect(x, 0, layout.box, layout.high, rx=3, **dotted))
    if wrong:
        red: dict[str, svg.Value] = {"class_": "mv-alert-line mv-wrong", "stroke_width": 3}
        drawn.append(svg.rect(x - 1, -1, layout.box + 2, layout.high + 2, rx=4, **red))
    return svg.group(*drawn, data_first=str(link.first), data_place=str(place))


def token_text(chains: Sequence[Chain], number: int, place: int, x: float, lines: int) -> list[svg.Markup]:
    """Draw a block's tokens; underline the first token that differs from the most similar chain above."""
    token_ids, found = chains[number].links[place].token_ids, kin(chains, number)
    differs = found.place - place * len(token_ids) if found and found.differs else -1
    look = {"class_": "mv-alert mv-strong mv-differing", "text_decoration": "underline"}
    words = [
        svg.element("tspan", svg.Markup(str(t)), **(look if k == differs else {})) for k, t in enumerate(token_ids)
    ]
    long = cdiv(len(words), lines)
    return [
        svg.element("text", svg.Markup(" ".join(words[at : at + long])), x=x, y=12 + TOKENS * line, class_="mv-middle")
        for line, at in enumerate(range(0, len(words), long))
    ]


def link_arrow(layout: ChainLayout, place: int) -> svg.Markup:
    """Draw the arrow from the previous hash, or from the root for the first block."""
    y = layout.high - HASH / 2
    start = layout.x(place) - (layout.column - layout.box) + 1 if place else LEFT - 24
    tip = layout.x(place) - 1.5
    head = min(3.5, (tip - start) / 2)
    data = f"M{start:.1f} {y:g}H{tip:.1f}m{-head:.1f} {-head:.1f}l{head:.1f} {head:.1f}l{-head:.1f} {head:.1f}"
    drawn = svg.path(data, class_="mv-line", stroke_width=1.5)
    if place:
        return drawn
    root = svg.element("circle", cx=LEFT - 24, cy=y, r=2.5, class_="mv-ink")
    about = svg.tooltip("the root: 32 zero bytes; salt and adapter go into the first block")
    return svg.group(about, root, drawn)


def draw_rest(layout: ChainLayout, place: int, num_hidden: int, rest: Sequence[int]) -> svg.Markup:
    """Draw the tokens that have no hash, or the number of hidden blocks."""
    x, y, box = layout.x(place), layout.high - HASH, layout.box
    names = (f"{counted(len(rest), 'token')}, no hash", f"{len(rest)} tok.")
    name = first_fitting(names, box) or f"+{len(rest)}"
    about = f"{spaced(rest)}: not full, so no hash"
    if num_hidden > 0:
        name, about = f"+{num_hidden}", f"{num_hidden} more blocks, and {len(rest)} tokens without a hash"
    return svg.group(
        svg.tooltip(about),
        svg.rect(x + 0.5, y + 0.5, box - 1, HASH - 1, rx=3, class_="mv-rule", stroke_dasharray="3 2"),
        svg.text(x + box / 2, y + HASH / 2 + 4, name, class_="mv-middle mv-faint"),
    )
