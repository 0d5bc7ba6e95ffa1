"""The film: one picture for each step, a row for each request."""

from collections.abc import Mapping, Sequence

from course.traces.drafts import Verdict
from course.traces.events import events_in
from course.traces.recording import Recording
from course.views import svg
from course.views.drafts import strips, words
from course.views.drafts.figures_part import figures_part
from course.views.drafts.scene import Scene, scenes
from course.views.drafts.story import describe, text_alternative
from course.views.film import Film
from course.views.parts import LEFT, WIDTHS, Part, headline_part, most_lines, page, span_of
from course.views.picture import WIDTH, Layer, Picture
from course.views.tiles import tile

SLOTS = 2 * words.LINE_HEIGHT + 3
ROW = SLOTS + strips.APART + strips.HIGH + strips.IDS + 5
NAMES = ((15, "drafts"), (words.TEXT_Y, "text"), (SLOTS + 11, "slots"), (SLOTS + strips.APART + 11, "after"))


def draft_film(recording: Recording, request_id: str | None = None, texts: Mapping[int, str] | None = None) -> Film:
    """Return a picture of each step: the drafts, what the target sampled, and the slots of each request.

    Of more than four requests the first four of a step are shown; `request_id` chooses one. `texts` are those of the
    tokens, which are numbers without. The film begins at a step with accepted and with rejected drafts, if there is
    one. Raises `ValueError` if there is no such request.
    """
    all_scenes = list(scenes(recording, request_id, texts or {}))
    drawn = {width: pictures(all_scenes, width) for width in WIDTHS}
    info = recording.info
    shown = info.titles if request_id is None else [request_id]
    follow = [(f"request:{info.index(i)}", f"request {info.label(i)}") for i in shown]
    events = [
        [*happened, *["rejected draft"] * any(verdict.sampled and verdict.num_rejected for verdict in scene.shown)]
        for happened, scene in zip(events_in(recording), all_scenes, strict=True)
    ]
    return Film(drawn.pop(WIDTH), list(drawn.values()), follow, events, first=telling(all_scenes))


def telling_step(recording: Recording, request_id: str | None = None) -> int:
    """Return the first step with accepted and with rejected drafts; else one with drafts, else 0."""
    return telling(list(scenes(recording, request_id, {})))


def telling(all_scenes: Sequence[Scene]) -> int:
    """Return the step that shows most at a glance."""
    best = max(all_scenes, key=lambda scene: (max(map(interest, scene.shown), default=0), -scene.step), default=None)
    return best.step if best is not None else 0


def interest(verdict: Verdict) -> int:
    """Return how much a share shows: both kinds of drafts, only one kind, or none."""
    is_judged = bool(verdict.sampled and verdict.drafts)
    return is_judged * (1 + (verdict.num_accepted > 0) + 2 * (verdict.num_accepted > 0 < verdict.num_rejected))


def pictures(all_scenes: Sequence[Scene], width: float) -> list[Picture]:
    """Return the pictures of all steps for pages of a width."""
    num_lines = most_lines(map(describe, all_scenes), width)
    num_rows = max((len(scene.rows) for scene in all_scenes), default=0)
    num_positions = max((len(scene.counts.proposed) for scene in all_scenes), default=0)
    most_blocks = max((len(verdict.blocks) for scene in all_scenes for verdict in scene.shown), default=1)
    size = all_scenes[0].info.block_size if all_scenes else 1
    scale = strips.StripScale.fitting(size, most_blocks, span_of(width))
    made = []
    for scene in all_scenes:
        headline = f"step {scene.step} of {scene.num_steps - 1}"
        parts = [headline_part(headline, told(scene), width)]
        parts += [row_part(scene, place, width, scale) for place in range(num_rows)]
        parts.append(figures_part(scene, num_positions, width))
        text = text_alternative(scene) if width == WIDTH else ""
        made.append(page(f"Drafts, {headline}", parts, describe(scene), text, width, num_lines))
    return made


def told(scene: Scene) -> str:
    """Return what the step verifies, in one line."""
    drafts = sum(len(verdict.drafts) for verdict in scene.shown)
    hidden = f" · {scene.num_hidden} more requests not shown" if scene.num_hidden else ""
    return f"{scene.num_drafts(drafts)} verified · blocks of {scene.info.block_size} slots{hidden}"


def row_part(scene: Scene, place: int, width: float, scale: strips.StripScale) -> Part:
    """Return a request's tokens and slots; an empty row where a step has fewer requests."""
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
