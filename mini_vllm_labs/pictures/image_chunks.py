"""Draws a prompt with images step by step: its chunks, the encoded images, and the encoder cache."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mini_vllm.core.request import MultiModalFeatureSpec
from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.parts import MARGIN, NARROW, WIDTHS, Part, headline_part, page
from mini_vllm_labs.pictures.picture import WIDTH, Layer, Picture
from mini_vllm_labs.pictures.svg import Markup
from mini_vllm_labs.pictures.text import counted, facts, spaced
from mini_vllm_labs.pictures.tiles import on_tile
from mini_vllm_labs.runs.palette import color

ROW, CELL, NOTES = 40, 20, 490
MAX_TOKENS = (WIDTHS[0] - 2 * MARGIN) // CELL


@dataclass(frozen=True)
class ImageStep:
    """One step of the request: its chunk, the contents encoded and evicted, and the contents cached afterwards."""

    num_computed_tokens: int
    num_new_tokens: int
    encoded: Sequence[str]
    evicted: Sequence[str]
    cached: Sequence[str]

    @property
    def end(self) -> int:
        return self.num_computed_tokens + self.num_new_tokens

    def sentence(self) -> str:
        parts = [counted(self.num_new_tokens, "token")]
        parts += [f"encodes {spaced(self.encoded)}"] * bool(self.encoded)
        parts += [f"evicts {spaced(self.evicted)}"] * bool(self.evicted)
        return ", ".join(parts)


def image_chunks(
    num_prompt_tokens: int,
    images: Sequence[MultiModalFeatureSpec],
    steps: Sequence[ImageStep],
    budget: int,
    width: float = WIDTH,
) -> Picture:
    """Draw one line per step. Raises `ValueError` for a prompt that is too long to draw in cells."""
    if not 1 <= num_prompt_tokens <= MAX_TOKENS:
        raise ValueError(f"a picture can show a prompt of 1 to {MAX_TOKENS} tokens, got {num_prompt_tokens}")
    contents = list(dict.fromkeys(image.identifier for image in images))
    row = ROW if width >= NARROW else 2 * ROW - 4
    rows = [_row(k * row + 4, k, num_prompt_tokens, images, contents, step, width) for k, step in enumerate(steps)]
    lines = [
        (f"step {k}", f"{step.sentence()}; cached: {spaced(step.cached)}") for k, step in enumerate(steps, start=1)
    ]
    places = [(f"image {one.identifier}", f"tokens {one.offset} to {one.end - 1}") for one in images]
    cut = next((step for step in steps if any(step.end == image.offset for image in images)), None)
    sentence = (
        "Every image fits: no chunk ends before one."
        if cut is None
        else f"A chunk ends at token {cut.end}, before an image whose embeddings do not fit into this step."
    )
    figures = f"{counted(num_prompt_tokens, 'token')}, a budget of {counted(budget, 'embedding')} a step"
    parts = [
        headline_part("Chunks and images", figures, width),
        Part([Layer("steps", svg.joined(rows))], row * len(steps) + 10),
    ]
    drawn = page("Chunks and images", parts, sentence, facts([*places, *lines]), width)
    if width <= WIDTHS[0]:
        return drawn
    return replace(drawn, narrow=image_chunks(num_prompt_tokens, images, steps, budget, WIDTHS[0]))


def _row(
    y: float,
    k: int,
    num_tokens: int,
    images: Sequence[MultiModalFeatureSpec],
    contents: Sequence[str],
    step: ImageStep,
    width: float,
) -> Markup:
    drawn, names = list[Markup](), list[Markup]()
    for token in range(min(num_tokens, step.end)):
        mine = token >= step.num_computed_tokens
        image = next((one for one in images if one.offset <= token < one.end), None)
        x, index = MARGIN + token * CELL, None if image is None else contents.index(image.identifier)
        fill = {} if index is None else {"fill": color(index), "fill_opacity": 1 if mine else 0.35}
        drawn.append(svg.rect(x, y, CELL - 2, CELL, class_="mv-panel" if index is None else None, **fill))
        if mine and image is not None and index is not None and token == image.offset:
            names.append(on_tile(index, x + image.length * CELL / 2, y + 14, image.identifier))
    left, right = MARGIN + step.num_computed_tokens * CELL, MARGIN + min(step.end, num_tokens) * CELL - 2
    drawn.append(svg.line(left, y + CELL + 4, right, y + CELL + 4, class_="mv-line", stroke_width=3))
    x, top = (NOTES, y + 9) if width >= NARROW else (MARGIN, y + CELL + 20)
    drawn += [
        *names,
        svg.text(x, top, f"{k + 1}: {step.sentence()}"),
        svg.text(x, top + 15, f"cached: {spaced(step.cached) or 'none'}", class_="mv-faint"),
    ]
    return svg.joined(drawn)
