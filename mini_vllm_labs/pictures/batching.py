"""Draws static batching above continuous batching on a common step axis, with one row per slot and the idle
fraction."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.knobs import Slider
from mini_vllm_labs.pictures.parts import LEFT, MARGIN, WIDTHS, Part, heading, page, span_of
from mini_vllm_labs.pictures.picture import WIDTH, Layer, Picture
from mini_vllm_labs.pictures.step_axis import StepAxis
from mini_vllm_labs.pictures.text import counted, facts
from mini_vllm_labs.pictures.tiles import tile
from mini_vllm_labs.runs.palette import ink_on, label

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.panels import Panel

LENGTHS = (7, 20, 4, 9, 6, 11, 3, 8)
LONG, SEATS, MAX_LONGEST = 1, 4, 30
HIGH, ROW, HEAD = 24, 28, 30


@dataclass(frozen=True)
class Stay:
    """A request in a slot, from step `start` up to but excluding step `end`."""

    request: int
    seat: int
    start: int
    end: int


@dataclass(frozen=True)
class Plan:
    """An assignment of requests to slots. `num_idle` counts the idle steps of all slots."""

    stays: Sequence[Stay]
    num_seats: int

    @property
    def num_steps(self) -> int:
        return max(stay.end for stay in self.stays)

    @property
    def num_idle(self) -> int:
        return self.num_seats * self.num_steps - sum(stay.end - stay.start for stay in self.stays)

    @property
    def idle_share(self) -> float:
        return self.num_idle / (self.num_seats * self.num_steps)

    def idle(self, seat: int) -> list[tuple[int, int]]:
        """Return the periods during which a slot is empty, as (start, end)."""
        mine = sorted((stay.start, stay.end) for stay in self.stays if stay.seat == seat)
        edges = zip([0, *(end for _, end in mine)], [*(start for start, _ in mine), self.num_steps], strict=True)
        return [(start, end) for start, end in edges if start < end]


def static(lengths: Sequence[int], num_seats: int) -> Plan:
    """Plan static batches, each starting when the longest answer of the previous batch is complete."""
    stays, start = list[Stay](), 0
    for first in range(0, len(lengths), num_seats):
        batch = lengths[first : first + num_seats]
        stays += [Stay(first + seat, seat, start, start + length) for seat, length in enumerate(batch)]
        start += max(batch)
    return Plan(stays, num_seats)


def continuous(lengths: Sequence[int], num_seats: int) -> Plan:
    """Assign each request to the first free slot, as the engine does with `max_num_seqs`."""
    free, stays = [0] * num_seats, list[Stay]()
    for request, length in enumerate(lengths):
        seat = free.index(min(free))
        stays.append(Stay(request, seat, free[seat], free[seat] + length))
        free[seat] += length
    return Plan(stays, num_seats)


KINDS: tuple[tuple[str, Callable[[Sequence[int], int], Plan]], ...] = (("static", static), ("continuous", continuous))


def batching(
    lengths: Sequence[int] = LENGTHS, num_seats: int = SEATS, width: float = WIDTH, horizon: int = 0
) -> Picture:
    """Draw both kinds of batches for requests that arrive together and take `lengths` steps each.

    The axis covers at least `horizon` steps, so that a bar does not shrink under the mouse. Raises `ValueError` if
    there are no requests or slots, or if a length is below 1.
    """
    if not lengths or min(lengths) < 1 or num_seats < 1:
        raise ValueError(f"lengths and num_seats must be at least 1, got {list(lengths)} and {num_seats}")
    plans = {name: plan(lengths, num_seats) for name, plan in KINDS}
    size = max((each for each in WIDTHS if each <= width), default=WIDTHS[0])
    room, most = span_of(size), max(horizon, *(plan.num_steps for plan in plans.values()))
    axis = StepAxis([room * step / most for step in range(most + 1)], is_even=True)
    parts = [*(plan_part(name, plan, axis, size) for name, plan in plans.items())]
    parts.append(Part([Layer("axis", axis.numbers(), LEFT), heading("axis", "step", 14)], 22))
    slow, fast = plans.values()
    told = (
        "Static: a seat whose answer is complete stays empty until the longest answer of the batch is. Continuous: "
        f"the next request takes it in the next step. {slow.num_steps} steps become {fast.num_steps}."
    )
    text = [(f"{name}, request {label(s.request)}", f"seat {s.seat + 1}, steps {s.start} to {s.end - 1}")
            for name, plan in plans.items() for s in plan.stays]  # fmt: skip
    sums = [(name, figures(plan)) for name, plan in plans.items()]
    return page("Static and continuous batching", parts, told, facts([("what happens", told), *sums, *text]), size)


def figures(plan: Plan) -> str:
    area = plan.num_seats * plan.num_steps
    return f"{counted(plan.num_steps, 'step')}, {plan.num_idle} of {area} places idle"


def plan_part(name: str, plan: Plan, axis: StepAxis, width: float) -> Part:
    """Draw the slots' rows below a headline with the idle fraction; the end of the long answer is draggable."""
    rows, empty = list[svg.Markup](), list[svg.Markup]()
    for stay in plan.stays:
        x, wide = axis.x(stay.start), axis.x(stay.end) - axis.x(stay.start)
        y = stay.seat * ROW
        boxes = [tile(stay.request, label(stay.request), x + 0.5, y, max(0.4, wide - 1), HIGH)]
        about = f"{label(stay.request)}: {counted(stay.end - stay.start, 'step')}, from step {stay.start}"
        grip: dict[str, svg.Value] = {}
        if stay.request == LONG:
            lines = f"M{svg.number(x + wide - 8)} {y + 6}v12m4-12v12"
            boxes.append(svg.path(lines, stroke=ink_on(LONG), stroke_width=1.5, fill="none"))
            grip = {"data_drag": "longest", "data_per": axis.width(0)}
        rows.append(svg.group(svg.tooltip(about), *boxes, data_request=str(stay.request), **grip))
    for seat in range(plan.num_seats):
        for start, end in plan.idle(seat):
            x, wide, y = axis.x(start), axis.x(end) - axis.x(start), seat * ROW
            lines = svg.hatch(x, y, wide, HIGH, 6, style="stroke:var(--mv-alert)")
            frame = svg.rect(x + 0.5, y + 0.5, wide - 1, HIGH - 1, class_="mv-alert-line", opacity=0.5)
            empty.append(svg.group(svg.tooltip(f"idle for {counted(end - start, 'step')}"), lines, frame))
    share = svg.text(width - MARGIN, 20, f"{plan.idle_share:.0%} idle", class_="mv-title mv-end mv-alert")
    title = svg.text(LEFT, 20, f"{name.capitalize()} batching: {counted(plan.num_steps, 'step')}", class_="mv-title")
    names = [svg.text(MARGIN, seat * ROW + 16, f"seat {seat + 1}", class_="mv-faint") for seat in range(plan.num_seats)]
    layers = [
        Layer(f"{name}-headline", svg.joined([title, share])),
        Layer(f"{name}-seats", svg.joined(names), 0, HEAD),
        Layer(f"{name}-idle", svg.joined(empty), LEFT, HEAD),
        Layer(f"{name}-requests", svg.joined(rows), LEFT, HEAD),
    ]
    return Part(layers, HEAD + ROW * plan.num_seats + 2)


def batching_panel() -> "Panel":
    """Return knobs for the longest answer and the number of slots; the end of that answer's bar is also draggable."""
    from mini_vllm_labs.pictures.panels import Panel

    def draw(longest: float, seats: float, width: float = WIDTH, before: Any = None) -> Picture:
        lengths = [*LENGTHS[:LONG], int(longest), *LENGTHS[LONG + 1 :]]
        return batching(lengths, int(seats), width, horizon=MAX_LONGEST + max(LENGTHS[SEATS:]))

    knobs = [
        Slider("longest", "answer B, or drag its end", LENGTHS[LONG], 1, MAX_LONGEST, 1, "tokens"),
        Slider("seats", "seats", SEATS, 1, 8, 1),
    ]
    return Panel(knobs, draw, reflows=True)
