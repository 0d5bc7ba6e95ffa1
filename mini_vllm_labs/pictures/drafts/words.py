"""Draws a row of tokens: the end of the known text, then the drafts above the target's sampled tokens."""

from itertools import zip_longest

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.drafts.scene import DraftScene
from mini_vllm_labs.pictures.text import counted, ordinal
from mini_vllm_labs.pictures.tiles import on_tile, tile
from mini_vllm_labs.pictures.typeset import shorten, text_width
from mini_vllm_labs.runs.palette import color
from mini_vllm_labs.runs.traces.drafts import STAND_IN, Verdict

SIZE, BOX_HEIGHT, LINE_HEIGHT, GAP, PAD = 12, 22, 26, 3, 10
TEXT_Y = LINE_HEIGHT + 15
MIN_TOKEN_WIDTH, MAX_TOKEN_WIDTH = 24.0, 96.0
BEFORE_DRAFTS = 12
NO_DRAFTS = "no drafts"
ACCEPTED = (svg.rect(0, 0, 14, 10, rx=2, fill=color(0)), "accepted draft")
WRONG_FRAME = svg.rect(0.75, 0.75, 12.5, 8.5, class_="mv-alert-line", stroke_width=1.5)
WRONG_LINE = svg.line(0, 5, 14, 5, class_="mv-alert-line", stroke_width=1.5)
WRONG = (svg.joined([WRONG_FRAME, WRONG_LINE]), "first wrong draft")
UNREAD = (
    svg.group(svg.hatch(0, 0, 14, 10, 4), svg.rect(0.5, 0.5, 13, 9), class_="mv-line", opacity=0.5),
    "later draft, not used",
)
SAMPLED = (svg.rect(1, 1, 12, 8, rx=2, class_="mv-changed"), "the target's own token")
SAMPLES = [ACCEPTED, WRONG, UNREAD, SAMPLED]


def column_widths(scene: DraftScene, verdict: Verdict, room: float) -> list[float]:
    """Return the column widths for drafts and sampled tokens, narrower than the tokens if space is short."""
    num_columns = max(len(verdict.drafts), len(verdict.sampled))
    most = max(MIN_TOKEN_WIDTH, min(MAX_TOKEN_WIDTH, (room - BEFORE_DRAFTS) / max(1, num_columns) - GAP))
    columns = zip_longest(verdict.drafts, verdict.sampled)
    names = [[scene.name(token) for token in column if token is not None] for column in columns]
    return [min(most, max(map(box_width, column))) for column in names]


def box_width(name: str) -> float:
    return max(MIN_TOKEN_WIDTH, text_width(name, SIZE, bold=True) + PAD)


def words(scene: DraftScene, request_id: str, room: float) -> svg.Markup:
    """Draw a request's two lines: its drafts, and its text with the tokens that this step adds."""
    verdict = scene.verdicts[request_id]
    if verdict is None:
        absent = "not in this step" if scene.before[request_id] else "not in this step, no token yet"
        return svg.text(0, TEXT_Y, absent, class_="mv-faint")
    missing = ""
    if not verdict.sampled:
        missing = "ended before: in vain" if verdict.in_vain else f"computes up to token {verdict.num_planned}"
    widths = column_widths(scene, verdict, room)
    columns = sum(widths) + GAP * len(widths)
    new = max(columns, text_width(missing, SIZE), 0 if verdict.drafts else text_width(NO_DRAFTS, SIZE))
    known, x = known_text(scene, request_id, room - new - BEFORE_DRAFTS)
    middle = x + BEFORE_DRAFTS / 2 - 1
    drawn = [known, svg.line(middle, 2, middle, LINE_HEIGHT + BOX_HEIGHT, class_="mv-rule")]
    index, x = scene.info.index(request_id), x + BEFORE_DRAFTS
    if not verdict.drafts:
        drawn.append(svg.text(x, 15, NO_DRAFTS, class_="mv-faint"))
    drawn.append(svg.text(x, TEXT_Y, missing, class_="mv-faint"))
    for place, width in enumerate(widths):
        if place < len(verdict.drafts):
            drawn.append(svg.group(draft_box(scene, verdict, place, width, index), transform=svg.at(x, 0)))
        if place < len(verdict.sampled):
            drawn.append(svg.group(sampled_box(scene, verdict, place, width, index), transform=svg.at(x, LINE_HEIGHT)))
        x += width + GAP
    return svg.group(*drawn, data_request=str(index))


def known_text(scene: DraftScene, request_id: str, room: float) -> tuple[svg.Markup, float]:
    """Draw the newest known tokens that fit, in order, and return their width."""
    tokens = scene.before[request_id]
    names = [shorten(scene.name(token_id), MAX_TOKEN_WIDTH - PAD, SIZE, bold=True) for token_id in tokens]
    prompt = f"prompt of {scene.info.num_prompt_tokens[request_id]}"
    boxes, used = list[tuple[str, float]](), 0.0
    for name in reversed(names):
        if used + box_width(name) + GAP > room - text_width("…", SIZE) - GAP:
            break
        boxes.insert(0, (name, box_width(name)))
        used += box_width(name) + GAP
    first = prompt if len(boxes) == len(names) and used + box_width(prompt) <= room else "…"
    x, drawn = text_width(first, SIZE) + GAP + 2, [svg.text(0, TEXT_Y, first, class_="mv-faint")]
    for name, width in boxes:
        drawn.append(svg.rect(x, LINE_HEIGHT, width, BOX_HEIGHT, rx=3, class_="mv-panel"))
        drawn.append(svg.text(x + width / 2, TEXT_Y, name, class_="mv-middle"))
        x += width + GAP
    return svg.joined(drawn), x


def draft_box(scene: DraftScene, verdict: Verdict, place: int, width: float, index: int) -> svg.Markup:
    """Draw a draft that is accepted, wrong, or preceded by a wrong draft."""
    token_id = verdict.drafts[place]
    is_accepted = place < verdict.num_accepted
    name = shorten(scene.name(verdict.sampled[place] if is_accepted else token_id), width - 6, SIZE)
    what = f"{ordinal(place + 1)} {'place for a draft' if token_id == STAND_IN else 'draft'}"
    if is_accepted:
        about = f"{what}: the target samples the same"
        return svg.group(svg.tooltip(about), tile(index, name, 0, 0, width, BOX_HEIGHT), class_="mv-accepted")
    label = svg.text(width / 2, 15, name, class_="mv-middle")
    if place == verdict.num_accepted and verdict.sampled and token_id != STAND_IN:
        frame = svg.rect(0.75, 0.75, width - 1.5, BOX_HEIGHT - 1.5, rx=3, class_="mv-alert-line", stroke_width=1.5)
        cross = svg.line(3, BOX_HEIGHT / 2, width - 3, BOX_HEIGHT / 2, class_="mv-alert-line", stroke_width=2)
        about = svg.tooltip(f"{what}: the target samples a different token")
        return svg.group(about, frame, label, cross, class_="mv-rejected")
    lines = svg.hatch(0, 0, width, BOX_HEIGHT, 6, style="stroke:var(--mv-faint)")
    frame = svg.rect(0.5, 0.5, width - 1, BOX_HEIGHT - 1, rx=3, class_="mv-rule")
    why = "after a wrong one, so the target read a different text there"
    why = "there was none, or a wrong one, or one after a wrong one" if token_id == STAND_IN else why
    about = svg.tooltip(f"{what}: {'in vain' if verdict.in_vain else why}")
    ground = svg.rect(4, 3, width - 8, BOX_HEIGHT - 6, rx=2, class_="mv-paper", opacity=0.8)
    return svg.group(about, frame, lines, ground, label, class_="mv-unread", opacity=0.55)


def sampled_box(scene: DraftScene, verdict: Verdict, place: int, width: float, index: int) -> svg.Markup:
    """Draw a token that becomes part of the text: an accepted draft or the target's token."""
    name = shorten(scene.name(verdict.sampled[place]), width - 6, SIZE, bold=True)
    faded = None if place < len(verdict.kept) else 0.4
    late = "" if faded is None else ", after the end of the answer: not kept"
    if place < verdict.num_accepted:
        ground = svg.rect(0, 0, width, BOX_HEIGHT, rx=3, fill=color(index))
        box = svg.joined([ground, on_tile(index, width / 2, 15, name)])
        about = f"accepted draft{late}"
    else:
        frame = svg.rect(1.25, 1.25, width - 2.5, BOX_HEIGHT - 2.5, rx=3, class_="mv-changed")
        box = svg.joined([frame, svg.text(width / 2, 15, name, class_="mv-middle mv-strong")])
        about = f"the target's own token after {counted(verdict.num_accepted, 'accepted draft')}{late}"
    return svg.group(svg.tooltip(about), box, class_="mv-kept-token", opacity=faded)
