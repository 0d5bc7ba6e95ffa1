"""Draws the stutter: two windows type the same answer in simulated time while a long prompt is also being computed."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.parts import MARGIN, NARROW, WIDTHS, Part, headline_part, most_lines, page
from mini_vllm_labs.pictures.picture import Layer, Picture
from mini_vllm_labs.pictures.text import counted, facts
from mini_vllm_labs.pictures.tiles import tile
from mini_vllm_labs.pictures.typeset import wrap
from mini_vllm_labs.runs.traces.recording import Recording

WORDS = (
    "Once upon a time a girl called Mina had a red kite. One day the wind took it over the hill. She ran after it all "
    "morning and found it in the oldest tree of the park."
).split()
NUM_FRAMES, FROZEN_MS, SIZE, LINE, MAX_LINES, HIGH, BAR, STRIP = 80, 15.0, 14, 19, 9, 24, 16, 46


@dataclass(frozen=True)
class Typing:
    """One run in simulated time. `ends` contains the ends of its steps in ms, and `tokens` contains the steps that
    produced a word."""

    name: str
    recording: Recording
    request: str
    ends: Sequence[float]

    @cached_property
    def tokens(self) -> list[float]:
        return [
            end
            for record, end in zip(self.recording.steps, self.ends, strict=True)
            if self.request in record["sampled"]
        ]

    def longest_pause(self, now: float) -> float:
        """Return the longest time between two words up to now, including the time since the last word."""
        known = [time for time in self.tokens if time <= now]
        open_end = [now] if known and len(known) < len(self.tokens) else []
        return max((after - before for before, after in pairwise([*known, *open_end])), default=0.0)

    def pause(self, now: float) -> float:
        """Return the ms since the last word, or 0 before the first word or after the final word."""
        typed = bisect_right(self.tokens, now)
        return now - self.tokens[typed - 1] if 0 < typed < len(self.tokens) else 0.0


def stutter(runs: Mapping[str, Recording], request: str, step_ms: Callable[[int], float]) -> Film:
    """Return a film of equally spaced moments that shows how a request's answer grows in each run.

    A step of n tokens takes `step_ms(n)`. The film opens at the longest pause. Raises `ValueError` if there are no
    runs.
    """
    if not runs:
        raise ValueError("a stutter film needs at least one run")
    typings = [
        Typing(name, run, request, list(accumulate(step_ms(record["total"]) for record in run.steps)))
        for name, run in runs.items()
    ]
    total = max(one.ends[-1] for one in typings)
    moments = [total * frame / NUM_FRAMES for frame in range(NUM_FRAMES + 1)]
    drawn = {width: pictures(typings, moments, width) for width in WIDTHS}
    worst = max(range(len(moments)), key=lambda at: max(one.pause(moments[at]) for one in typings))
    return Film.of(drawn, word="moment", first=worst)


def pictures(typings: Sequence[Typing], moments: Sequence[float], width: float) -> list[Picture]:
    told = [sentence(typings, now) for now in moments]
    num_lines, made = most_lines(told, width), []
    for now, words in zip(moments, told, strict=True):
        parts = [headline_part(f"{now:.0f} ms", "simulated time, in slow motion", width)]
        parts.append(windows(typings, now, width))
        parts += [strip(one, now, moments[-1], width) for one in typings]
        text = facts([("what happens", words), *((one.name, line_of(one, now)) for one in typings)])
        made.append(page(f"Stutter, {now:.0f} ms", parts, words, text, width, num_lines))
    return made


def windows(typings: Sequence[Typing], now: float, width: float) -> Part:
    """Draw one window for each run, side by side, with the words typed so far."""
    wide, layers = (width - 2 * MARGIN + 12) / len(typings) - 12, list[Layer]()
    num_lines = MAX_LINES if width < NARROW else MAX_LINES - 4
    for place, one in enumerate(typings):
        typed, pause = bisect_right(one.tokens, now), one.pause(now)
        lines = wrap(" ".join(WORDS[:typed]), wide - 24, SIZE, num_lines)
        frozen = pause > FROZEN_MS
        state = f"frozen for {pause:.0f} ms" if frozen else "typing" if typed < len(one.tokens) else "complete"
        look = "mv-alert" if frozen else "mv-faint"
        edge: dict[str, svg.Value] = {
            "class_": "mv-alert-line" if frozen else "mv-rule",
            "stroke_width": 1 + 2 * frozen,
        }
        frame = svg.rect(1, 1, wide - 2, HIGH + LINE * num_lines + 34, rx=6, **edge)
        drawn = [
            svg.rect(1, 1, wide - 2, HIGH, rx=6, class_="mv-panel"),
            frame,
            svg.text(10, 17, one.name, class_="mv-strong"),
            *(svg.text(12, HIGH + 22 + LINE * n, line, font_size=SIZE) for n, line in enumerate(lines)),
            svg.text(12, HIGH + LINE * num_lines + 24, state, class_=f"mv-strong {look}", font_size=SIZE),
        ]
        layers.append(Layer(f"window-{place}", svg.joined(drawn), MARGIN + place * (wide + 12)))
    return Part(layers, HIGH + LINE * num_lines + 48)


def strip(one: Typing, now: float, total: float, width: float) -> Part:
    """Draw a run's steps on a time axis that is hidden after `now`, and the run's longest pause so far."""
    room, info = width - 2 * MARGIN, one.recording.info
    scale, start, drawn = room / total, 0.0, list[svg.Markup]()
    for record, end in zip(one.recording.steps, one.ends, strict=True):
        x, wide = start * scale, max(0.4, (end - start) * scale - 0.8)
        longest = max(record["scheduled"], key=lambda share: share["n"], default=None)
        if longest is not None:
            index, hatched = info.index(longest["id"]), longest["n"] > 1
            about = f"step {record['step']}: {counted(record['total'], 'token')}, {end - start:.1f} ms"
            drawn.append(
                svg.group(svg.tooltip(about), tile(index, info.label(longest["id"]), x, 0, wide, BAR, hatched=hatched))
            )
        start = end
    cover = svg.rect(now * scale, -1, room - now * scale, BAR + 2, class_="mv-panel")
    pause = f"longest pause {one.longest_pause(now):.0f} ms"
    layers = [
        Layer(f"{one.name}-name", svg.text(MARGIN, 16, one.name, class_="mv-faint")),
        Layer(f"{one.name}-longest", svg.text(width - MARGIN, 16, pause, class_="mv-end mv-strong")),
        Layer(f"{one.name}-steps", svg.joined(drawn), MARGIN, 22),
        Layer(f"{one.name}-cover", cover, MARGIN, 22),
    ]
    return Part(layers, STRIP)


def sentence(typings: Sequence[Typing], now: float) -> str:
    """Name the frozen window and the prompt that freezes it, or state the number of words in each window."""
    for one in typings:
        if one.pause(now) > FROZEN_MS:
            step = one.recording.steps[bisect_right(one.ends, now)]
            tokens = counted(step["total"], "token")
            return f"{one.name}: the next word is one of the {tokens} of a step, and waits for all of them."
    return f"Words so far: {', '.join(f'{one.name} {bisect_right(one.tokens, now)}' for one in typings)}."


def line_of(one: Typing, now: float) -> str:
    typed = bisect_right(one.tokens, now)
    return (
        f"{counted(typed, 'word')}, paused for {one.pause(now):.0f} ms, longest pause {one.longest_pause(now):.0f} ms"
    )
