"""Draws the mask of the whole step: queries from top to bottom, and all requests' keys from left to right."""

from itertools import accumulate

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.paged_batch.scene import BatchScene, Query
from mini_vllm_labs.pictures.parts import LEFT, Part, heading, span_of
from mini_vllm_labs.pictures.picture import Layer
from mini_vllm_labs.pictures.typeset import first_fitting
from mini_vllm_labs.runs.palette import color

MAX_CELL_WIDTH, MAX_CELL_HEIGHT, MAX_HEIGHT = 26, 13, 104
TOP, MIN_GRID = 18, 6


class Mask:
    """The largest cell size that fits, the position where each request's keys begin, and the drawing of all query-key
    pairs."""

    def __init__(self, scene: BatchScene, step_of: dict[int, int], width: float) -> None:
        self.num_keys = sum(scene.seq_lens)
        self.first_key = list(accumulate(scene.seq_lens, initial=0))
        self.wide = min(MAX_CELL_WIDTH, span_of(width) / self.num_keys)
        self.high = min(MAX_CELL_HEIGHT, MAX_HEIGHT / scene.num_rows)
        self.height = self.high * scene.num_rows
        self.drawn = whole_mask(scene, self, step_of)


def mask_part(scale: Mask, query: Query) -> Part:
    x, y = scale.first_key[query.number] * scale.wide, query.row * scale.high
    width = (query.position + 1) * scale.wide
    line = svg.group(
        svg.tooltip(f"row {query.row} sees {query.position + 1} of {scale.num_keys} keys"),
        svg.rect(x, y, width, max(scale.high, 1.5), fill=color(query.number)),  # a thinner line would be invisible
        svg.rect(x - 1, y - 1, width + 2, max(scale.high, 1.5) + 2, class_="mv-changed"),
        data_request=str(query.number),
    )
    layers = [
        heading("mask", "6 the mask", TOP + 11, "queries by keys"),
        Layer("mask-all", scale.drawn, LEFT, TOP),
        Layer("mask-line", line, LEFT, TOP),
    ]
    return Part(layers, TOP + max(scale.height, 26) + 14)


def whole_mask(scene: BatchScene, scale: Mask, step_of: dict[int, int]) -> svg.Markup:
    """Draw every request's staircase, with lines between the cells if they are large enough."""
    wide, high = scale.wide, scale.high
    ground = svg.rect(0, 0, scale.num_keys * wide, scene.num_rows * high, class_="mv-panel")
    parts, row = [ground], 0
    for number, share in enumerate(scene.batch):
        x, width = scale.first_key[number] * wide, scene.seq_lens[number] * wide
        name = f"{scene.name(number)}: keys 0-{scene.seq_lens[number] - 1}"
        shown = first_fitting((name, scene.name(number)), width)
        parts.append(svg.text(x + width / 2, -5, shown, class_="mv-faint mv-middle"))
        steps = [f"M{x:.2f} {row * high:.2f}"]
        for place in range(share.num_scheduled_tokens):
            steps.append(f"H{x + (share.num_computed_tokens + place + 1) * wide:.2f}v{high:.2f}")
        steps.append(f"H{x:.2f}Z")
        drawn = svg.path("".join(steps), fill=color(number), opacity=0.35)
        parts.append(svg.group(drawn, data_request=str(number), class_="mv-link"))
        row += share.num_scheduled_tokens
        if number + 1 < len(scene.batch):
            parts.append(svg.line(x + width, 0, x + width, scene.num_rows * high, class_="mv-rule", stroke_width=1.5))
    if wide >= MIN_GRID and high >= MIN_GRID:
        down = [f"M{k * wide:.2f} 0v{scene.num_rows * high:.2f}" for k in range(1, scale.num_keys)]
        across = [f"M0 {k * high:.2f}h{scale.num_keys * wide:.2f}" for k in range(1, scene.num_rows)]
        parts.append(svg.path("".join(down + across), class_="mv-rule", stroke_width=0.7))
    lines = [
        svg.rect(0, index * high, scale.num_keys * wide, high, data_go_to=str(step)) for index, step in step_of.items()
    ]
    return svg.joined([*parts, svg.group(*lines, fill="transparent", class_="mv-link")])
