"""Draws a regex's DFA as a graph: the text's state, the bytes that may follow, and the masked tokens."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from mini_vllm.electives.automaton import Dfa
from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.parts import NARROW, WIDTHS, Part, headline_part, most_lines, page
from mini_vllm_labs.pictures.picture import WIDTH, Layer, Picture
from mini_vllm_labs.pictures.svg import Markup
from mini_vllm_labs.pictures.text import counted, facts, ranges, spaced
from mini_vllm_labs.pictures.typeset import shorten

MAX_STATES, MAX_TOKENS, RADIUS, MIDDLE, HEIGHT = 16, 8, 15, 105, 190


def automaton(
    regex: str,
    dfa: Dfa,
    state: int,
    allowed: Collection[str],
    num_tokens: int,
    sampled: str = "",
    width: float = WIDTH,
) -> Picture:
    """Draw the graph of a DFA with a thick circle for the current state.

    `allowed` are the tokens that are not masked, and `sampled` is the model's choice if it is known. Raises
    `ValueError` for more than `MAX_STATES` states.
    """
    if len(dfa.transitions) > MAX_STATES:
        raise ValueError(f"a picture can show at most {MAX_STATES} states, got {len(dfa.transitions)}")
    xs = [width * (2 * number + 1) / (2 * len(dfa.transitions)) for number in range(len(dfa.transitions))]
    edges = {(at, to): read_by(row, to) for at, row in enumerate(dfa.transitions) for to in sorted({*row.values()})}
    nodes = [_node(x, number, number in dfa.accepting, number == state) for number, x in enumerate(xs)]
    arrows = [_arrow(xs[at], xs[to], to - at, label) for (at, to), label in edges.items()]
    masked = num_tokens - len(allowed)
    shown = spaced(sorted(allowed), MAX_TOKENS)
    sentence = f"In state {state}, {counted(len(allowed), 'token')} may follow: {shown}."
    sentence += f" The model samples {sampled}." if sampled else ""
    rows = [(f"state {at} to {to}", label) for (at, to), label in edges.items()]
    now = [("now in state", state), ("may follow", shown), ("masked", masked), *[("sampled", sampled)] * bool(sampled)]
    text = facts([("regex", regex), ("the text may end in", spaced(sorted(dfa.accepting))), *rows, *now])
    parts = [
        headline_part(f"DFA of {shorten(regex, 300, 15)}", f"{masked:,} of {num_tokens:,} tokens masked", width),
        Part([Layer("arrows", svg.joined(arrows)), Layer("states", svg.joined(nodes))], HEIGHT),
    ]
    num_lines = max(2 if width >= NARROW else 4, most_lines([sentence], width))  # the same in all frames of a film
    drawn = page(f"DFA of {regex}", parts, sentence, text, width, num_lines)
    if width <= WIDTHS[0]:
        return drawn
    return replace(drawn, narrow=automaton(regex, dfa, state, allowed, num_tokens, sampled, WIDTHS[0]))


def read_by(row: dict[int, int], state: int) -> str:
    """Return the bytes that lead to a state, as in `a`, `0-9` or `a-f x`."""
    runs = [run.split("-") for run in ranges(sorted(byte for byte, to in row.items() if to == state)).split()]
    return " ".join("-".join(repr(chr(int(end)))[1:-1] for end in run) for run in runs)


def _node(x: float, number: int, may_end: bool, is_current: bool) -> Markup:
    shape: Sequence[Markup] = [
        svg.element("circle", cx=x, cy=MIDDLE, r=RADIUS, class_="mv-paper"),
        svg.element("circle", cx=x, cy=MIDDLE, r=RADIUS, class_="mv-line", stroke_width=4 if is_current else 1),
        *[svg.element("circle", cx=x, cy=MIDDLE, r=RADIUS - 4, class_="mv-line")] * may_end,
    ]
    return svg.joined([*shape, svg.text(x, MIDDLE + 4, str(number), class_="mv-middle mv-strong")])


def _arrow(start: float, end: float, distance: int, label: str) -> Markup:
    """Draw forward arrows above the states and backward arrows below; longer distances get higher arcs."""
    side, shift = (1, -5) if distance < 0 else (-1, 5 if distance else -8)
    from_x, to_x, y = start + shift, end - shift, MIDDLE + side * (RADIUS - 1)
    top = MIDDLE + side * (RADIUS + 14 + 16 * min(3, abs(distance)))
    head = f"M{to_x - 4:.1f} {y + side * 7}L{to_x:.1f} {y}L{to_x + 4:.1f} {y + side * 7}"
    named = svg.text(
        (start + end) / 2, (y + 3 * top) / 4, shorten(label, max(40, abs(end - start)), 12), class_="mv-middle mv-cased"
    )
    curve = f"M{from_x:.1f} {y}C{from_x:.1f} {top} {to_x:.1f} {top} {to_x:.1f} {y}"
    return svg.joined([svg.path(curve + head, class_="mv-line"), named])
