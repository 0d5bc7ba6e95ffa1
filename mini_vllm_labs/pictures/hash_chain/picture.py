"""Draws a line of linked blocks per prompt, each block in the colour of the first prompt with its hash."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mini_vllm.core.interfaces import HashBlock
from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.hash_chain import chain_text
from mini_vllm_labs.pictures.hash_chain.chains import Chain, chains_of, faults
from mini_vllm_labs.pictures.hash_chain.links import (
    MARGIN,
    SIZE,
    ChainLayout,
    draw_link,
    draw_rest,
    layout_of,
    link_arrow,
)
from mini_vllm_labs.pictures.knobs import Menu, Slider, Switch
from mini_vllm_labs.pictures.parts import WIDTHS, Part, headline_part, page
from mini_vllm_labs.pictures.picture import WIDTH, Layer, Picture
from mini_vllm_labs.pictures.text import counted, ordinal
from mini_vllm_labs.pictures.tiles import tile
from mini_vllm_labs.pictures.typeset import shorten, wrap
from mini_vllm_labs.runs.palette import color

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.panels import Panel

MAX_ROWS, NOTE, SALT = 12, 16, "blue"
ALIKE = svg.rect(0, 0, 14, 10, class_="mv-line", stroke_width=2, stroke_dasharray="2 2")
OTHER = svg.text(7, 9, "7", class_="mv-alert mv-strong mv-middle", text_decoration="underline")
SAMPLES = [
    (svg.rect(0, 0, 14, 10, rx=2, fill=color(0)), "colour: first prompt with this hash"),
    (ALIKE, "same tokens as above, other hash"),
    (OTHER, "first other token"),
]
FOUND = (svg.path("M0 3v4H14v-4", class_="mv-line", stroke_width=2), "found in the cache")
WRONG = (svg.rect(1, 0, 12, 10, rx=2, class_="mv-alert-line", stroke_width=3), "wrong hash")


def hash_chain(
    prompts: Mapping[str, Sequence[int]],
    block_size: int,
    hash_block: HashBlock | None = None,
    *,
    salts: Mapping[str, str] | None = None,
    hits: Mapping[str, Sequence[int]] | None = None,
    width: float = WIDTH,
) -> Picture:
    """Draw the chains of at most twelve prompts (names mapped to token ids) for a page of a given `width`.

    `hash_block` is phase 4's function; without it, blocks are named after their shared content. `salts` gives prompts
    an extra key; `hits` contains the blocks that a cache found for prompts (see `hits_of`). Raises `ValueError` if a
    prompt cannot be drawn or a hash is not bytes.
    """
    if len(prompts) > MAX_ROWS:
        raise ValueError(f"there are {len(prompts)} prompts, but a picture can show at most {MAX_ROWS}")
    chains = chains_of(prompts, block_size, hash_block, salts or {})
    layout, hits = layout_of(chains, width), hits or {}
    formula = "hash of a block = hash_block(hash of the block before it, its tokens)"
    if hash_block is None:
        formula = "no hashes: A2 is any block with the tokens of the first prompt up to the end of its 2nd block"
    parts = [headline_part("Hash chain", f"blocks of {block_size} tokens", width), heads(layout, formula, block_size)]
    parts += [row(chains, number, layout, hits.get(chain.name), block_size) for number, chain in enumerate(chains)]
    samples = [*SAMPLES, *[FOUND] * bool(hits), *[WRONG] * bool(faults(chains))]
    parts.append(Part([], 0, {"hash chain": samples}))
    sentence = chain_text.describe_chains(chains, hits, block_size)
    text = chain_text.text_alternative(chains, hits, block_size)
    drawn = page(f"Hash chain of {', '.join(prompts)}", parts, sentence, text, width)
    if width <= WIDTHS[0]:
        return drawn
    narrow = hash_chain(prompts, block_size, hash_block, salts=salts, hits=hits, width=WIDTHS[0])
    return replace(drawn, narrow=narrow)


def heads(layout: ChainLayout, formula: str, block_size: int) -> Part:
    lines = wrap(formula, layout.width - 24, SIZE, 2)
    y = 18 + 16 * len(lines)
    drawn = [svg.text(12, 8 + 16 * line, words, class_="mv-faint") for line, words in enumerate(lines)]
    for place in range(layout.num_shown):
        number = f"{ordinal(place + 1)} block" if layout.box > 50 else str(place + 1)
        tokens = f"tokens {place * block_size}-{(place + 1) * block_size - 1}" if block_size > 1 else f"token {place}"
        x = layout.x(place) + layout.box / 2
        drawn.append(svg.group(svg.tooltip(tokens), svg.text(x, y, number, class_="mv-faint mv-middle")))
    if layout.box <= 50 and layout.num_shown:
        drawn.append(svg.text(12, y, "block", class_="mv-faint"))
    return Part([Layer("heads", svg.joined(drawn))], y + 8)


def row(
    chains: Sequence[Chain], number: int, layout: ChainLayout, found: Sequence[int] | None, block_size: int
) -> Part:
    """Draw one prompt: its name and keys, its full blocks, its remaining tokens, and a note below."""
    chain, alike = chains[number], chain_text.lookalikes(chains, number)
    label = shorten(chain.name, layout.name - 6, 12, bold=True)
    drawn = [tile(number, label, 12, layout.high / 2 - 10, layout.name, 20)]
    for key in chain.keys:
        drawn.append(svg.text(12, layout.high + 12, shorten(key, layout.name + 24, SIZE), class_="mv-faint"))
    wrong = {fault.place for fault in faults(chains) if fault.number == number}
    for place in range(len(chain.links[: layout.num_shown])):
        drawn.append(link_arrow(layout, place))
        drawn.append(draw_link(chains, number, place, layout, place in alike, place in wrong))
    num_hidden = len(chain.links) - layout.num_shown
    if num_hidden > 0 or chain.rest:
        drawn.append(draw_rest(layout, min(len(chain.links), layout.num_shown), num_hidden, chain.rest))
    below, num_lines = note(chains, number, layout, found, block_size)
    drawn.append(below)
    about = ", ".join([f"{chain.name}: {counted(len(chain.token_ids), 'token')}", *chain.keys])
    content = svg.group(svg.tooltip(about), *drawn, data_request=str(number))
    return Part([Layer(f"chain-{number}", content)], layout.high + NOTE * num_lines + layout.gap)


def note(
    chains: Sequence[Chain], number: int, layout: ChainLayout, found: Sequence[int] | None, block_size: int
) -> tuple[svg.Markup, int]:
    """Draw the bracket under a chain's hit, describe its first difference, and return the number of lines."""
    y, parts, text = layout.high + 12, list[svg.Markup](), chain_text.kinship(chains, number)
    if found is not None:
        text = " · ".join(filter(None, [chain_text.hit_text(chains[number], found, block_size), text]))
    if found:
        end = layout.x(min(len(found), layout.num_shown) - 1) + layout.box
        style = f"stroke:{color(number)}"
        bracket = f"M{layout.x(0):.1f} {layout.high + 2}v2.5H{end:.1f}v-2.5"
        parts.append(svg.path(bracket, class_="mv-line mv-found", style=style, stroke_width=2))
        y += 3
    lines = wrap(text, layout.width - MARGIN - layout.x(0), SIZE, 2)
    named = [svg.text(layout.x(0), y + NOTE * line, words, class_="mv-faint") for line, words in enumerate(lines)]
    return svg.joined([*parts, *named]), max(1, len(lines))


def chain_panel(token_ids: Sequence[int], hash_block: HashBlock | None = None) -> "Panel":
    """Return knobs (token, block size, salt) above the chains of prompts A and B, which differ in one token.

    Raises `ValueError` for an empty prompt.
    """
    from mini_vllm_labs.pictures.panels import Panel

    if not token_ids:
        raise ValueError("token_ids is empty, but a chain needs at least one token")

    def draw(position: float, block_size: int, salted: bool, width: float = WIDTH, before: object = None) -> Picture:
        prompts = {"A": list(token_ids), "B": [token + (place == position) for place, token in enumerate(token_ids)]}
        return hash_chain(prompts, block_size, hash_block, salts={"B": SALT} if salted else {}, width=width)

    knobs = (
        Slider("position", "the token of B that differs", min(5, len(token_ids) - 1), 0, len(token_ids) - 1, 1),
        Menu("block_size", "block size", 4, (2, 4, 8, 16)),
        Switch("salted", f"cache_salt '{SALT}' for B", False),
    )
    return Panel(knobs, draw, reflows=True)
