"""What the drafts have brought so far: tokens per step, drafts accepted, and how many of them by position."""

from course.views import svg
from course.views.drafts.scene import Scene
from course.views.parts import LEFT, NARROW, Part, heading, span_of
from course.views.picture import Layer
from course.views.svg import Markup
from course.views.text import counted, ordinal

BAR, MAX_COLUMN, TEXT_WIDTH = 36, 64, 268
SAMPLES = [
    (svg.rect(3, 0, 8, 10, class_="mv-panel"), "proposed"),
    (svg.rect(3, 3, 8, 7, class_="mv-ink"), "accepted"),
]


def figures_part(scene: Scene, num_positions: int, width: float) -> Part:
    """Return the figures, and a bar for each position of a draft up to `num_positions`."""
    counts = scene.counts
    proposed, accepted = sum(counts.proposed), sum(counts.accepted)
    share = f": {100 * accepted / proposed:.0f} %" if proposed else ""
    told = f"{accepted} of {scene.num_drafts(proposed)}{'' if scene.has_stand_ins else ' accepted'}{share}"
    lines = [
        svg.text(0, 16, f"{counts.tokens_per_step:.2f}", class_="mv-title"),
        svg.text(40, 16, "tokens per step and request"),
        svg.text(0, 38, told),
    ]
    is_narrow = width < NARROW
    left, top = (LEFT, 50) if is_narrow else (LEFT + TEXT_WIDTH, 4)
    room = span_of(width) - (0 if is_narrow else TEXT_WIDTH)
    layers = [
        heading("figures", "so far", 16, f"{counted(counts.num_tokens, 'token')}"),
        Layer("figures", svg.joined(lines), LEFT),
        Layer("positions", bars(scene, num_positions, room), left, top),
    ]
    return Part(layers, top + BAR + 38, {"so far": SAMPLES})


def bars(scene: Scene, num_positions: int, room: float) -> Markup:
    """Return how many drafts of each position were proposed and accepted."""
    column = min(MAX_COLUMN, room / max(1, num_positions))
    most, drawn = max(scene.counts.proposed, default=0) or 1, list[Markup]()
    for place in range(num_positions):
        proposed, accepted = (
            counts[place] if place < len(counts) else 0 for counts in (scene.counts.proposed, scene.counts.accepted)
        )
        x, wide = place * column + 4, column - 8
        high, filled = BAR * proposed / most, BAR * accepted / most
        about = f"{ordinal(place + 1)} draft: {accepted} of {proposed} accepted"
        drawn.append(
            svg.group(
                svg.tooltip(about),
                svg.rect(x, BAR - high, wide, high, class_="mv-panel"),
                svg.rect(x, BAR - filled, wide, filled, class_="mv-ink", opacity=0.75),
                svg.text(x + wide / 2, BAR + 14, ordinal(place + 1), class_="mv-middle mv-faint"),
                svg.text(x + wide / 2, BAR + 29, f"{accepted}/{proposed}", class_="mv-middle"),
                data_position=str(place + 1),
            )
        )
    ground = svg.line(0, BAR + 0.5, num_positions * column, BAR + 0.5, class_="mv-rule")
    return svg.joined([*drawn, ground])
