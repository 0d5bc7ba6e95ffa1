"""Draws which gate (compute, request slots or memory) closes in each step of a large run, one strip per gate."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.parts import LEFT, WIDTHS, Part, heading, headline_part, most_lines, page, span_of
from mini_vllm_labs.pictures.picture import Layer, Picture
from mini_vllm_labs.pictures.step_axis import AXIS, StepAxis
from mini_vllm_labs.pictures.text import counted, facts, ranges
from mini_vllm_labs.pictures.tiles import tile
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.traces.run_state import RunInfo

GATES = ("compute", "seats", "memory")
COLOURS = {"compute": 1, "seats": 2, "memory": 5}
HIGH, ROW, TOP, BAND, MARK = 56, 72, 10, 18, 5
SOLID: dict[str, svg.Value] = {"class_": "mv-ink", "opacity": 0.65}
PREFILL = (svg.group(svg.hatch(0, 0, 14, 10, 5), class_="mv-line"), "prefill, waiting")
DECODE = (svg.rect(0, 0, 14, 10, **SOLID), "decode, in use, running")
PREEMPTED = (svg.rect(2, 3, 10, MARK, class_="mv-alert"), "preempted")


@dataclass(frozen=True)
class TokenCounts:
    """The counts of one step. `decode` counts tokens that follow computed prompts; `cut` counts the tokens of a final
    partial chunk."""

    total: int
    decode: int
    cut: int
    free: int
    running: int
    waiting: int
    preempted: int
    gate: str

    @classmethod
    def of(cls, record: StepRecord, info: RunInfo) -> "TokenCounts":
        shares, lengths = record["scheduled"], info.num_prompt_tokens
        decode = sum(one["n"] == 1 and one["computed"] >= lengths[one["id"]] for one in shares)
        cut = shares[-1]["n"] if shares and shares[-1]["computed"] + shares[-1]["n"] < lengths[shares[-1]["id"]] else 0
        running, waiting, preempted = (len(record[key]) for key in ("running_after", "waiting_after", "preempted"))
        seated = running + len(record["finished"])  # as of the time when the step was planned
        gate = gate_of(record["total"], seated, waiting, preempted, info)
        return cls(record["total"], decode, cut, record["free_after_schedule"], running, waiting, preempted, gate)

    def sentence(self, info: RunInfo) -> str:
        waiting = f"{counted(self.waiting, 'request')} wait{'s' * (self.waiting == 1)}"
        lost = f"{self.preempted} preempted, " if self.preempted else ""
        cut = f", {self.cut} of them a part of a prompt" if self.cut else ""
        return {
            "compute": f"Compute is the gate: all {self.total:,} tokens of the budget are planned{cut}. {waiting}.",
            "seats": f"Seats are the gate: all {info.max_num_seqs:,} are taken. {waiting}.",
            "memory": f"Memory is the gate: {self.free:,} of {counted(info.num_blocks, info.unit)} are free, and "
            f"{self.total:,} of {info.token_budget:,} tokens are planned. {lost}{waiting}.",
        }.get(self.gate, f"No gate is closed: {counted(self.total, 'token')}, {self.running:,} running, none waits.")


def gate_of(total: int, seated: int, waiting: int, preempted: int, info: RunInfo) -> str:
    """Return the gate that kept further tokens out of a step of chunked prefill, or an empty string."""
    if total >= info.token_budget:
        return "compute"
    if waiting and seated == info.max_num_seqs:
        return "seats"
    return "memory" if waiting or preempted else ""


def gates(recording: Recording) -> Film:
    """Return a film whose pictures show the whole run in four strips. The film opens where memory is the limit."""
    info, counts = recording.info, [TokenCounts.of(record, recording.info) for record in recording.steps]
    named = [one.gate for one in counts]
    events = [(f"{now or 'no'} gate",) * (now != before) for before, now in zip(["", *named], named, strict=False)]
    drawn = {width: pictures(info, counts, width) for width in WIDTHS}
    return Film.of(drawn, events=events, first=named.index("memory") if "memory" in named else 0)


def pictures(info: RunInfo, counts: Sequence[TokenCounts], width: float) -> list[Picture]:
    axis = StepAxis.even(len(counts), span_of(width))
    strips, told = unchanging(info, counts, axis), [one.sentence(info) for one in counts]
    num_lines, run = most_lines(told, width), [(name, ranges_of(counts, name)) for name in GATES]
    made = []
    for step, now in enumerate(counts):
        used = info.num_blocks - now.free
        figures = [
            ("gate", now.gate),
            ("tokens", f"{now.total:,} of {info.token_budget:,}, {now.decode:,} decode"),
            (f"{info.unit}s", f"{used:,} of {info.num_blocks:,} in use"),
            ("requests", f"{now.running:,} running, {now.waiting:,} waiting, {now.preempted} preempted"),
        ]
        headline = headline_part(f"step {step} of {len(counts) - 1}", f"gate: {now.gate or 'none'}", width)
        heads = [
            heading("budget", "token budget", 30, f"{now.total:,}", f"of {info.token_budget:,}"),
            heading("blocks", f"{info.unit}s in use", ROW + 30, f"{used:,}", f"of {info.num_blocks:,}"),
            heading("requests", "requests", 2 * ROW + 30, f"{now.running:,} running", f"{now.waiting:,} waiting"),
        ]
        bottom, x = 3 * ROW + BAND, axis.x(step + 1)
        to_come = svg.rect(x, 0, axis.x(len(counts)) - x, bottom, class_="mv-paper", opacity=0.7)
        cursor = Layer("cursor", axis.cursor(step, bottom - TOP), LEFT, TOP)
        layers = [*heads, *strips, Layer("to-come", to_come, LEFT), cursor]
        part = Part(layers, bottom + AXIS + 6, {"strips": [DECODE, PREFILL, PREEMPTED]})
        text = facts([("what happens", told[step]), *figures, *((f"steps with gate {name}", at) for name, at in run)])
        made.append(page(f"Gates, step {step}", [headline, part], told[step], text, width, num_lines))
    return made


def ranges_of(counts: Sequence[TokenCounts], gate: str) -> str:
    return ranges(step for step, one in enumerate(counts) if one.gate == gate)


def unchanging(info: RunInfo, counts: Sequence[TokenCounts], axis: StepAxis) -> list[Layer]:
    """Draw the strips of the whole run; a full resource reaches the top of its strip."""
    most = max(one.running + one.waiting for one in counts) or 1
    shares = [
        [(one.decode / info.token_budget, one.total / info.token_budget) for one in counts],
        [(1 - one.free / info.num_blocks, 0.0) for one in counts],
        [(one.running / most, (one.running + one.waiting) / most) for one in counts],
    ]
    strips = [strip(both, axis, ROW * row + TOP) for row, both in enumerate(shares)]
    lost = [step for step, one in enumerate(counts) if one.preempted]
    marks = [svg.rect(axis.x(step), ROW + 3, axis.width(step), MARK, class_="mv-alert") for step in lost]
    bands, first = list[svg.Markup](), 0
    for gate, steps in groupby(one.gate for one in counts):
        end = first + len(list(steps))
        if gate:
            bands.append(tile(COLOURS[gate], gate, axis.x(first), 3 * ROW, axis.x(end) - axis.x(first), BAND))
        first = end
    return [
        Layer("strips", svg.joined([*strips, *marks]), LEFT),
        Layer("bands", svg.joined(bands), LEFT),
        Layer("bands-heading", svg.text(12, 3 * ROW + 13, "gate", class_="mv-strong")),
        Layer("axis", axis.numbers(), LEFT, 3 * ROW + BAND),
        Layer("axis-heading", svg.text(12, 3 * ROW + BAND + 14, "step", class_="mv-strong")),
        Layer("columns", axis.columns(0, 3 * ROW + BAND + AXIS), LEFT),
    ]


def strip(shares: Sequence[tuple[float, float]], axis: StepAxis, y: float) -> svg.Markup:
    """Draw one column per step, solid up to the first fraction of the height, then hatched up to the second."""
    drawn, roof = [svg.rect(0, y, axis.x(len(shares)), HIGH, class_="mv-panel")], f"M0 {y + HIGH}"
    for step, (solid, hatched) in enumerate(shares):
        x, wide, low, top = axis.x(step), axis.width(step), y + HIGH * (1 - solid), y + HIGH * (1 - hatched)
        roof += f"V{svg.number(low)}H{svg.number(x + wide)}"
        if hatched > solid:
            drawn.append(svg.hatch(x, top, wide, low - top, max(3, wide), style="stroke:var(--mv-ink)"))
    return svg.joined([*drawn, svg.path(f"{roof}V{y + HIGH}z", **SOLID)])
