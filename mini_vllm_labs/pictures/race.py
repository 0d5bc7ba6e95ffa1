"""Draws a race: the same requests under several policies, each policy in a lane from waiting to answered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.film import Film, requests_of
from mini_vllm_labs.pictures.parts import LEFT, MARGIN, WIDTHS, Part, headline_part, most_lines, page, span_of, stacked
from mini_vllm_labs.pictures.picture import Layer, Picture
from mini_vllm_labs.pictures.step_axis import StepAxis
from mini_vllm_labs.pictures.text import facts, ranges, spaced
from mini_vllm_labs.pictures.tiles import tile
from mini_vllm_labs.pictures.time_machine.history import Histories, RequestHistory
from mini_vllm_labs.pictures.time_machine.machine import Outlook
from mini_vllm_labs.pictures.time_machine.queues import record_of
from mini_vllm_labs.pictures.time_machine.timeline import Timeline
from mini_vllm_labs.pictures.typeset import shorten
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.traces.run_state import RunInfo, RunState

ZONES = ("waiting", "running", "answered")
HIGH, MIDDLE, LANE, GAP, LEAST, MORE = 28, 14, 64, 3, 32, 32
MAX_ROWS, ROWS_HIGH = 8, 64  # a lane's number of rows, and the height of its timeline in px


# The value that each of these policies in `mini_vllm_labs/policies` compares; the smallest goes first.
KEYS = {"fcfs": "arrival", "priority": "priority", "sjf": "tokens left", "srtf": "tokens left"}
OVERTAKES = "\N{LEFTWARDS ARROW}"
LEGEND = {"race": [(svg.text(7, 10, OVERTAKES, class_="mv-middle mv-strong"), "served before an earlier arrival")]}


@dataclass(frozen=True)
class Lane:
    """One run in one step: each zone's requests, their generated tokens, and the mean wait in steps.

    `rows` maps each width to the timeline of the whole run, and `computed` is the same timeline as text. `keys`
    contains the values that the policy compares, and `starts` contains the arrival steps.
    """

    name: str
    info: RunInfo
    zones: Mapping[str, Sequence[str]]
    done: Mapping[str, int]
    mean: float
    rows: Mapping[float, Part]
    computed: str
    starts: Mapping[str, int]
    keys: Mapping[str, int] = field(default_factory=dict)

    @property
    def compares(self) -> str:
        return KEYS.get(self.name.lower(), "")

    def with_keys(self, lengths: Mapping[str, int]) -> "Lane":
        """Return the lane with its policy's keys, if known, and its waiting requests in order."""
        left = {i: length - self.done.get(i, 0) for i, length in lengths.items()}
        of = {"arrival": self.starts, "priority": self.info.priorities, "tokens left": left}
        keys = of.get(self.compares, {})
        waiting = sorted(self.zones["waiting"], key=lambda i: (keys.get(i, 0), self.starts[i]))
        return replace(self, keys=keys, zones={**self.zones, "waiting": waiting})

    def overtakes(self, request_id: str) -> bool:
        """Return whether a request is served before a waiting request that arrived earlier."""
        waiting = self.zones["waiting"]
        later = waiting[waiting.index(request_id) + 1 :] if request_id in waiting else waiting
        return any(self.starts[i] < self.starts[request_id] for i in later)


def race(runs: Mapping[str, Recording]) -> Film:
    """Return a film with one picture per step of the longest run. Raises `ValueError` if there are no runs."""
    if not runs:
        raise ValueError("a race needs at least one run")
    num_steps, last = max(len(run.steps) for run in runs.values()), [*runs][-1]
    lanes = [lanes_of(name, run, num_steps, with_axis=name == last) for name, run in runs.items()]
    keyed = [[lane.with_keys(each[-1].done) for lane in each] for each in lanes]
    steps = [list(lanes_now) for lanes_now in zip(*keyed, strict=True)]
    return Film.of({width: pictures(steps, width) for width in WIDTHS}, requests_of(next(iter(runs.values())).info))


def lanes_of(name: str, run: Recording, num_steps: int, *, with_axis: bool) -> list[Lane]:
    """Return a run's lane in each step of the longest run; a shorter run keeps its final state."""
    info, state, histories, lanes = run.info, RunState(run.info), Histories(list(run.info.titles)), list[Lane]()
    whole, timelines = Outlook.of(run).histories, dict[float, Timeline]()
    for width in WIDTHS:
        axis = StepAxis.even(num_steps, span_of(width))
        timelines[width] = Timeline(info, whole, {"steps": axis}, most_high=ROWS_HIGH, max_rows=MAX_ROWS)
    computed = "; ".join(f"{info.label(i)} {computed_in(whole.of[i])}" for i in [*info.titles][:MAX_ROWS])
    for step in range(num_steps):
        if step < len(run.steps):
            state.advance(run.steps[step])
            histories.add(state)
        arrived = {i: histories.of[i] for i in histories.arrived(step)}
        running = [i for i, *_ in record_of(state)["running_after"]]
        waiting = [i for i in arrived if i not in running and i not in state.finished]
        firsts = [(one.spans[0].first, one.first_token) for one in arrived.values()]
        waits = [(step + 1 if token is None else token) - start for start, token in firsts]
        zones = dict(zip(ZONES, (waiting, running, list(state.finished)), strict=True))
        rows = {width: one.part(state, step, with_axis=with_axis) for width, one in timelines.items()}
        starts = {i: one.spans[0].first for i, one in arrived.items()}
        lanes.append(
            Lane(name, info, zones, dict(state.num_output_tokens), fmean(waits or [0]), rows, computed, starts)
        )
    return lanes


def computed_in(history: RequestHistory) -> str:
    computing = [step for span in history.spans if span.computes for step in range(span.first, span.last + 1)]
    return ranges(computing) or "never"


def pictures(steps: Sequence[Sequence[Lane]], width: float) -> list[Picture]:
    told = [sentence(step, lanes) for step, lanes in enumerate(steps)]
    num_lines, made = most_lines(told, width), []
    for step, lanes in enumerate(steps):
        best = min(lane.mean for lane in lanes)
        headline = headline_part(
            f"step {step} of {len(steps) - 1}", "boxes: after the step · mean wait for the first token, in steps", width
        )
        ends = (each.done for each in steps[-1])
        drawn = [track(lane, end, lane.mean == best, width) for lane, end in zip(lanes, ends, strict=True)]
        tracks = [stacked([part, lane.rows[width]], lane.name) for part, lane in zip(drawn, lanes, strict=True)]
        text = facts([("what happens", told[step]), *((lane.name, line_of(lane)) for lane in lanes)])
        made.append(page(f"Race, step {step}", [headline, *tracks], told[step], text, width, num_lines))
    return made


def track(lane: Lane, lengths: Mapping[str, int], leads: bool, width: float) -> Part:
    """Draw a lane with each zone's requests, as wide as their answers and filled in proportion to their generated
    tokens."""
    info, room = lane.info, span_of(width) / len(ZONES)
    scale = max(0.0, room - 20 - MORE - LEAST * len(lengths)) / (sum(lengths.values()) or 1)
    drawn, grounds = list[svg.Markup](), list[svg.Markup]()
    for place, (zone, request_ids) in enumerate(lane.zones.items()):
        x = place * room
        grounds.append(svg.rect(x, 0, room - 8, HIGH + 8, rx=4, class_="mv-panel"))
        grounds.append(svg.text(x + 2, -5, zone, class_="mv-faint"))
        x += 4
        for shown, i in enumerate(request_ids):
            wide, done = LEAST + scale * lengths.get(i, 0) - GAP, lane.done.get(i, 0)
            if x + wide > (place + 1) * room - MORE:
                drawn.append(svg.text(x, MIDDLE + 8, f"+{len(request_ids) - shown}", class_="mv-faint"))
                break
            share = done / lengths[i] if lengths.get(i) else 0
            box = svg.group(tile(info.index(i), "", 0, 0, wide, HIGH), opacity=0.35)
            about = svg.tooltip(f"{info.label(i)}: {done} of {lengths.get(i, 0)} tokens generated")
            name, key = shorten(info.label(i), wide, 12, True), key_text(lane, i) if zone != "answered" else ""
            look = "mv-middle mv-strong mv-cased"
            label = svg.joined(
                svg.text(wide / 2, y, line, class_=look)
                for y, line in zip((MIDDLE - 2, HIGH - 3) if key else (MIDDLE + 4, 0), (name, key), strict=True)
                if line
            )
            bar = tile(info.index(i), "", 0, 0, wide * share, HIGH)
            moving = svg.group(about, box, bar, label, data_id=f"request:{info.index(i)}")
            drawn.append(svg.group(moving, transform=svg.at(x, 4), data_request=str(info.index(i)), class_="mv-link"))
            x += wide + GAP
    mean = svg.text(MARGIN, 40, f"{lane.mean:.1f} steps", class_="mv-title" if leads else "mv-faint")
    head = [svg.text(MARGIN, 22, lane.name, class_="mv-strong" if leads else None), mean]
    head += [svg.text(MARGIN, 57, f"by {lane.compares}", class_="mv-faint")] if lane.keys else []
    layers = [
        Layer("name", svg.joined(head)),
        Layer("zones", svg.joined(grounds), LEFT, 18),
        Layer("requests", svg.joined(drawn), LEFT, 18),
    ]
    return Part(layers, LANE, LEGEND if lane.keys else {})


def key_text(lane: Lane, request_id: str) -> str:
    """Return a request's key, preceded by an arrow if the request overtakes another."""
    key = lane.keys.get(request_id)
    return "" if key is None else f"{OVERTAKES * lane.overtakes(request_id)}{key}"


def sentence(step: int, lanes: Sequence[Lane]) -> str:
    """Describe how many requests each run has answered, and name the runs with the shortest mean wait."""
    least = min(lane.mean for lane in lanes)
    best = [lane.name for lane in lanes if lane.mean == least]
    answered = ", ".join(f"{lane.name} {len(lane.zones['answered'])}" for lane in lanes)
    lead = f"Ahead: {' and '.join(best)}, with {least:.1f} steps of waiting on average."
    ahead = "All are level." if len(best) == len(lanes) else lead
    return f"Answered after step {step}: {answered}. {ahead}"


def line_of(lane: Lane) -> str:
    zones = (f"{zone} {spaced(map(lane.info.label, ids)) or 'none'}" for zone, ids in lane.zones.items())
    compared = [*lane.zones["waiting"], *lane.zones["running"]] if lane.keys else []
    keys = (
        f", {lane.compares}: {spaced(f'{lane.info.label(i)} {key_text(lane, i)}' for i in compared)}"
        if compared
        else ""
    )
    return f"{', '.join(zones)}{keys}, mean wait {lane.mean:.1f} steps; computed in steps: {lane.computed}"
