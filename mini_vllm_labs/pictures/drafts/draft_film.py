"""Builds the film of a run's drafts: each picture has a row per request and the counts so far."""

from collections.abc import Mapping, Sequence

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.drafts import strips, words
from mini_vllm_labs.pictures.drafts.scene import DraftScene, describe, scenes, text_alternative
from mini_vllm_labs.pictures.film import Film, requests_of
from mini_vllm_labs.pictures.parts import LEFT, NARROW, WIDTHS, Part, heading, headline_part, most_lines, page, span_of
from mini_vllm_labs.pictures.picture import WIDTH, Layer, Picture
from mini_vllm_labs.pictures.text import counted, ordinal
from mini_vllm_labs.pictures.tiles import tile
from mini_vllm_labs.runs.traces.drafts import Verdict
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.traces.sentences import events_in

SLOTS = 2 * words.LINE_HEIGHT + 3
ROW = SLOTS + strips.APART + strips.HIGH + strips.IDS + 5
NAMES = ((15, "drafts"), (words.TEXT_Y, "text"), (SLOTS + 11, "slots"), (SLOTS + strips.APART + 11, "after"))
BAR, MAX_COLUMN, TEXT_WIDTH = 36, 64, 268
SAMPLES = [(svg.rect(3, 0, 8, 10, class_="mv-panel"), "proposed"), (svg.rect(3, 3, 8, 7, class_="mv-ink"), "accepted")]


def draft_film(recording: Recording, texts: Mapping[int, str] | None = None) -> Film:
    """Return a film with a picture per step: each request's drafts, sampled tokens and slots.

    A picture shows at most the step's first four requests. `texts` maps tokens to their text; without it, tokens are
    shown as numbers. The film opens at a step with both accepted and rejected drafts, if one exists.
    """
    all_scenes = list(scenes(recording, texts or {}))
    drawn = {width: pictures(all_scenes, width) for width in WIDTHS}
    events = [
        [*happened, *["rejected draft"] * any(verdict.sampled and verdict.num_rejected for verdict in scene.shown)]
        for happened, scene in zip(events_in(recording), all_scenes, strict=True)
    ]
    return Film.of(drawn, requests_of(recording.info), events=events, first=telling_step(all_scenes))


def telling_step(all_scenes: Sequence[DraftScene]) -> int:
    """Return the first step with both accepted and rejected drafts, else with accepted drafts, else with any drafts,
    else 0."""

    def interest(verdict: Verdict) -> int:
        is_judged = bool(verdict.sampled and verdict.drafts)
        return is_judged * (1 + (verdict.num_accepted > 0) + 2 * (verdict.num_accepted > 0 < verdict.num_rejected))

    scores = [max(map(interest, scene.shown), default=0) for scene in all_scenes]
    return scores.index(max(scores)) if scores else 0


def pictures(all_scenes: Sequence[DraftScene], width: float) -> list[Picture]:
    num_lines = most_lines(map(describe, all_scenes), width)
    num_rows = max((len(scene.rows) for scene in all_scenes), default=0)
    num_positions = max((len(scene.counts.proposed) for scene in all_scenes), default=0)
    max_held_blocks = max((len(verdict.blocks) for scene in all_scenes for verdict in scene.shown), default=1)
    size = all_scenes[0].info.block_size if all_scenes else 1
    scale = strips.StripScale.fitting(size, max_held_blocks, span_of(width))
    made = []
    for scene in all_scenes:
        headline = f"step {scene.step} of {scene.num_steps - 1}"
        drafts = scene.num_drafts(sum(len(verdict.drafts) for verdict in scene.shown))
        hidden = f" · {scene.num_hidden} more requests not shown" if scene.num_hidden else ""
        figures = f"{drafts} verified · blocks of {size} slots{hidden}"
        parts = [headline_part(headline, figures, width)]
        parts += [row_part(scene, place, width, scale) for place in range(num_rows)]
        parts.append(figures_part(scene, num_positions, width))
        text = text_alternative(scene) if width == WIDTH else ""
        made.append(page(f"Drafts, {headline}", parts, describe(scene), text, width, num_lines))
    return made


def row_part(scene: DraftScene, place: int, width: float, scale: strips.StripScale) -> Part:
    """Draw a request's tokens and slots, or an empty row if the step has fewer requests."""
    request_id = scene.rows[place] if place < len(scene.rows) else None
    head, tokens, slots = svg.Markup(""), svg.Markup(""), svg.Markup("")
    if request_id is not None:
        info, verdict = scene.info, scene.verdicts[request_id]
        index = info.index(request_id)
        names = [svg.text(LEFT - 20, y, name, class_="mv-end mv-faint") for y, name in NAMES if verdict is not None]
        title = svg.tooltip(info.titles[request_id])
        named = svg.group(title, tile(index, info.label(request_id), 12, 0, 30, words.BOX_HEIGHT), class_="mv-link")
        head = svg.group(named, *names, data_request=str(index))
        tokens = words.words(scene, request_id, span_of(width))
        slots = svg.Markup("") if verdict is None else strips.strips(scene, verdict, scale)
    layers = [
        Layer(f"head-{place}", head),
        Layer(f"words-{place}", tokens, LEFT),
        Layer(f"slots-{place}", slots, LEFT, SLOTS),
    ]
    return Part(layers, ROW, {"tokens": words.SAMPLES, "slots": strips.SAMPLES})


def figures_part(scene: DraftScene, num_positions: int, width: float) -> Part:
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


def bars(scene: DraftScene, num_positions: int, room: float) -> svg.Markup:
    """Draw the numbers of proposed and accepted drafts at each position."""
    column = min(MAX_COLUMN, room / max(1, num_positions))
    most, drawn = max(scene.counts.proposed, default=0) or 1, list[svg.Markup]()
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
