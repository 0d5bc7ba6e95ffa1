"""Draws the waits of all requests in a run as one small picture."""

from collections.abc import Mapping
from statistics import fmean

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.bars import SMALL_WIDTH
from mini_vllm_labs.pictures.chart import foot
from mini_vllm_labs.pictures.picture import Layer, Picture
from mini_vllm_labs.pictures.step_axis import INTERVALS, StepAxis
from mini_vllm_labs.pictures.text import counted, facts
from mini_vllm_labs.pictures.tiles import tile
from mini_vllm_labs.pictures.time_machine.history import RequestHistory
from mini_vllm_labs.pictures.time_machine.machine import Outlook
from mini_vllm_labs.pictures.typeset import text_width
from mini_vllm_labs.runs.palette import color, ink_on
from mini_vllm_labs.runs.traces.recording import Recording

MARGIN, LEFT, RIGHT, TOP, ROW, BAR, LABEL = 10, 50, 34, 44, 22, 16, 12


def wait_strip(recording: Recording, name: str, width: float = SMALL_WIDTH) -> Picture:
    """Draw a row for each request: an empty bar while it waits, a full bar while it is computed.

    The number at the end of a row is the step of the request's first token.
    """
    info, histories = recording.info, Outlook.of(recording).histories.of
    axis = StepAxis.even(len(recording.steps), width - LEFT - RIGHT - MARGIN)
    below = TOP + ROW * len(histories)
    title = svg.text(MARGIN, 20, name, class_="mv-strong", font_size=13)
    column = svg.text(width - MARGIN, 36, "first token in step", class_="mv-end mv-faint")
    rows = [
        svg.group(row(info.label(i), info.index(i), history, axis, width), transform=svg.at(0, TOP + place * ROW))
        for place, (i, history) in enumerate(histories.items())
    ]
    sentence = sentence_of(recording, histories)
    words, height = foot(sentence, below + 36, width)
    layers = (
        Layer("heading", svg.joined([title, column])),
        Layer("rows", svg.joined(rows)),
        Layer("axis", numbers(axis, below)),
        words,
    )
    text = "\n".join([name, facts((info.label(i), in_words(history)) for i, history in histories.items()), sentence])
    return Picture(name, height - 4, layers, sentence, text, width)


def row(label: str, index: int, history: RequestHistory, axis: StepAxis, width: float) -> svg.Markup:
    parts = [svg.tooltip(f"{label}: {in_words(history)}"), tile(index, label, MARGIN, 0, 32, BAR)]
    for span in history.spans:
        x, long = LEFT + axis.x(span.first), axis.x(span.last + 1) - axis.x(span.first)
        if span.computes:
            parts.append(svg.rect(x, 0, long, BAR, fill=color(index)))
        else:
            parts.append(svg.rect(x + 0.75, 0.75, long - 1.5, BAR - 1.5, class_="mv-line mv-waits", rx=2))
        if span.kind == "prefill":
            parts.append(svg.hatch(x, 0, long, BAR, 5, stroke=ink_on(index)))
        words = counted(span.last + 1 - span.first, "step")
        if not span.computes and text_width(words, LABEL) + 8 <= long:
            parts.append(svg.text(x + long / 2, BAR - 4, words, class_="mv-middle"))
    if history.first_token is not None:
        parts.append(svg.text(width - MARGIN, BAR - 4, str(history.first_token), class_="mv-end mv-strong"))
    return svg.joined(parts)


def numbers(axis: StepAxis, y: float) -> svg.Markup:
    widest = text_width(str(axis.num_steps), LABEL) + 4
    every = next(interval for interval in INTERVALS if interval * axis.width(0) >= widest)
    places = range(0, axis.num_steps, every)
    drawn = [
        svg.text(MARGIN, y + 14, "step", class_="mv-faint"),
        svg.line(LEFT, y, LEFT + axis.x(axis.num_steps), y, class_="mv-rule"),
        *(svg.text(LEFT + axis.middle(n), y + 14, str(n), class_="mv-middle mv-faint") for n in places),
    ]
    return svg.joined(drawn)


def in_words(history: RequestHistory) -> str:
    parts = [f"arrives in step {history.spans[0].first}" if history.spans else "does not arrive"]
    parts.append(f"waits {counted(waiting(history), 'step')}")
    if history.first_token is not None:
        parts.append(f"first token in step {history.first_token}")
    if history.end is not None:
        parts.append(f"done in step {history.end[0]}")
    return ", ".join(parts)


def waiting(history: RequestHistory) -> int:
    """Return the number of steps in which a request was present but not computed."""
    return sum(span.last + 1 - span.first for span in history.spans if not span.computes)


def sentence_of(recording: Recording, histories: Mapping[str, RequestHistory]) -> str:
    first = [history.first_token for history in histories.values() if history.first_token is not None]
    parts = [f"First token in step {fmean(first):.1f} on average."] if first else []
    longest = max(histories, key=lambda request_id: waiting(histories[request_id]))
    if steps := waiting(histories[longest]):
        parts.append(f"{recording.info.label(longest)} waits longest: {counted(steps, 'step')}.")
    return " ".join([*parts, f"All done in step {len(recording.steps) - 1}."])
