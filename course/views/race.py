"""The race: the same requests under several policies on one clock, each in a lane from waiting to answered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from course.traces.recording import Recording
from course.traces.run_state import RunState
from course.views import svg
from course.views.film import Film
from course.views.parts import LEFT, MARGIN, WIDTHS, Part, headline_part, most_lines, page, span_of, stacked
from course.views.picture import WIDTH, Layer, Picture
from course.views.text import facts, spaced
from course.views.tiles import tile
from course.views.time_machine.history import Histories
from course.views.typeset import shorten

ZONES = ("waiting", "running", "answered")
HIGH, MIDDLE, LANE, GAP, LEAST, MORE = 28, 14, 64, 3, 26, 32


@dataclass(frozen=True)
class Lane:
    """One policy in one step: the requests of each zone, and how many steps each waited for its first token."""

    name: str
    state: RunState
    zones: Mapping[str, Sequence[str]]
    waits: Sequence[int]

    @property
    def mean(self) -> float:
        return fmean(self.waits) if self.waits else 0.0


def race(runs: Mapping[str, Recording]) -> Film:
    """Return a picture for each step of the longest run. Raises `ValueError` without a run."""
    if not runs:
        raise ValueError("a race needs at least one run")
    steps = [[lane_of(name, run, step) for name, run in runs.items()] for step in range(longest(runs))]
    ends = {name: run.state(len(run.steps) - 1).num_output_tokens for name, run in runs.items()}
    drawn = {width: pictures(steps, ends, width) for width in WIDTHS}
    info = next(iter(runs.values())).info
    follow = [(f"request:{info.index(i)}", f"request {info.label(i)}") for i in info.titles]
    return Film(drawn.pop(WIDTH), list(drawn.values()), follow)


def longest(runs: Mapping[str, Recording]) -> int:
    return max(len(run.steps) for run in runs.values())


def lane_of(name: str, run: Recording, step: int) -> Lane:
    """Return a run's lane after a step; after its last one it stays as it is."""
    state, histories = RunState(run.info), Histories(list(run.info.titles))
    for record in run.steps[: step + 1]:
        state.advance(record)
        histories.add(state)
    last = min(step, len(run.steps) - 1)
    running = [i for i, *_ in run.steps[last]["running_after"]]
    arrived = histories.arrived(step)
    waiting = [i for i in arrived if i not in running and i not in state.finished]
    firsts = {i: histories.of[i] for i in arrived}
    waits = [(last + 1 if one.first_token is None else one.first_token) - one.spans[0].first for one in firsts.values()]
    return Lane(name, state, dict(zip(ZONES, (waiting, running, list(state.finished)), strict=True)), waits)


def pictures(steps: Sequence[Sequence[Lane]], ends: Mapping[str, Mapping[str, int]], width: float) -> list[Picture]:
    told = [sentence(step, lanes) for step, lanes in enumerate(steps)]
    num_lines = most_lines(told, width)
    made = []
    for step, lanes in enumerate(steps):
        best = min(lane.mean for lane in lanes)
        headline = headline_part(f"step {step} of {len(steps) - 1}", "mean wait for the first token, in steps", width)
        tracks = [stacked([track(lane, ends[lane.name], lane.mean == best, width)], lane.name) for lane in lanes]
        text = facts([("what happens", told[step]), *((lane.name, line_of(lane)) for lane in lanes)])
        made.append(page(f"Race, step {step}", [headline, *tracks], told[step], text, width, num_lines))
    return made


def track(lane: Lane, lengths: Mapping[str, int], leads: bool, width: float) -> Part:
    """Return a lane: in each zone its requests, as wide as their answers; filled as far as the answer is generated."""
    info, room = lane.state.info, span_of(width) / len(ZONES)
    scale = max(0.0, room - 20 - MORE - LEAST * len(lengths)) / (sum(lengths.values()) or 1)
    drawn, grounds = list[svg.Markup](), list[svg.Markup]()
    for place, (zone, request_ids) in enumerate(lane.zones.items()):
        x = place * room
        grounds.append(svg.rect(x, 0, room - 8, HIGH + 8, rx=4, class_="mv-panel"))
        grounds.append(svg.text(x + 2, -5, zone, class_="mv-faint"))
        x += 4
        for shown, i in enumerate(request_ids):
            wide, done = LEAST + scale * lengths.get(i, 0) - GAP, lane.state.num_output_tokens.get(i, 0)
            if x + wide > (place + 1) * room - MORE:
                drawn.append(svg.text(x, MIDDLE + 8, f"+{len(request_ids) - shown}", class_="mv-faint"))
                break
            share = done / lengths[i] if lengths.get(i) else 0
            box = svg.group(tile(info.index(i), "", 0, 0, wide, HIGH), opacity=0.35)
            about = svg.tooltip(f"{info.label(i)}: {done} of {lengths.get(i, 0)} tokens generated")
            label = svg.text(
                wide / 2, MIDDLE + 4, shorten(info.label(i), wide, 12, True), class_="mv-middle mv-strong mv-cased"
            )
            bar = tile(info.index(i), "", 0, 0, wide * share, HIGH)
            moving = svg.group(about, box, bar, label, data_id=f"request:{info.index(i)}")
            drawn.append(svg.group(moving, transform=svg.at(x, 4), data_request=str(info.index(i)), class_="mv-link"))
            x += wide + GAP
    mean = svg.text(MARGIN, 40, f"{lane.mean:.1f} steps", class_="mv-title" if leads else "mv-faint")
    head = [svg.text(MARGIN, 22, lane.name, class_="mv-strong" if leads else None), mean]
    layers = [
        Layer("name", svg.joined(head)),
        Layer("zones", svg.joined(grounds), LEFT, 18),
        Layer("requests", svg.joined(drawn), LEFT, 18),
    ]
    return Part(layers, LANE)


def sentence(step: int, lanes: Sequence[Lane]) -> str:
    """Return who has answered how many, and whose requests have waited least."""
    best = min(lanes, key=lambda lane: lane.mean)
    same = all(lane.mean == best.mean for lane in lanes)
    answered = ", ".join(f"{lane.name} {len(lane.zones['answered'])}" for lane in lanes)
    ahead = "All are level." if same else f"Ahead: {best.name}, with {best.mean:.1f} steps of waiting on average."
    return f"Answered after step {step}: {answered}. {ahead}"


def line_of(lane: Lane) -> str:
    label = lane.state.info.label
    zones = (f"{zone} {spaced(map(label, ids)) or 'none'}" for zone, ids in lane.zones.items())
    return f"{', '.join(zones)}, mean wait {lane.mean:.1f} steps"
