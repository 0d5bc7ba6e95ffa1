"""Draws, below the time axis, how long each request waits, why, and in which steps."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mini_vllm.core.step_record import StepRecord
from mini_vllm.engine.reasons import Found, cause_of
from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.parts import LEFT, Part, heading
from mini_vllm_labs.pictures.picture import Layer
from mini_vllm_labs.pictures.reason_mark import marked
from mini_vllm_labs.pictures.step_axis import StepAxis
from mini_vllm_labs.pictures.tiles import tile
from mini_vllm_labs.pictures.time_machine.refusals import in_words
from mini_vllm_labs.pictures.typeset import first_fitting, text_width
from mini_vllm_labs.runs.traces.run_state import RunInfo
from mini_vllm_labs.runs.traces.why import refuser_of, waited_for, waited_sentence

ROW, MAX_ROWS, TOP, APART = 18, 6, 4, 6


@dataclass
class Stretch:
    """Steps `first` to `last`, in which a request waited for the same reason; `words` come from the first step."""

    mark: str
    first: int
    last: int
    words: str


def stretches_of(info: RunInfo, steps: Sequence[StepRecord], request_id: str) -> list[Stretch]:
    found: list[Stretch] = []
    for step, record in enumerate(steps):
        reasons = record.get("reasons", {})
        if (reason := reasons.get(request_id)) is None:
            continue
        mark = cause_of(reason, reasons).mark
        if found and (found[-1].mark, found[-1].last) == (mark, step - 1):
            found[-1].last = step
        else:
            found.append(Stretch(mark, step, step, words_of(info, reason)))
    return found


def words_of(info: RunInfo, found: Found) -> str:
    return f"{in_words(info, found)} (`{refuser_of(found)}`)"


class WaitRows:
    """The rows of the requests that wait the longest, which are the same in all steps of a run."""

    def __init__(self, info: RunInfo, steps: Sequence[StepRecord], axes: Mapping[str, StepAxis], room: float) -> None:
        self.info, self.steps, self.axes, self.room = info, steps, axes, room
        self.waited: dict[str, Counter[str]] = waited_for(steps)
        longest = sorted(self.waited, key=lambda name: -self.waited[name].total())[:MAX_ROWS]
        self.shown = [name for name in info.titles if name in longest]
        self.stretches = {name: stretches_of(info, steps, name) for name in info.titles if name in self.waited}
        self.drawn = {scale: self._rows(axis, scale) for scale, axis in axes.items()}

    def part(self, step: int) -> Part:
        layers = [self._head(place, name, step) for place, name in enumerate(self.shown)]
        high = ROW * len(self.shown)
        for scale, axis in self.axes.items():
            cursor = svg.group(axis.cursor(step, high, f"waits-cursor-{scale}"), class_=f"mv-in-{scale}")
            layers.append(Layer(f"waits-{scale}", self.drawn[scale], x=LEFT, y=TOP))
            layers.append(Layer(f"waits-cursor-{scale}", cursor, x=LEFT, y=TOP))
        hidden = len(self.waited) - len(self.shown)
        if hidden:
            layers.append(heading("waits", "", high + 2, f"and {hidden} more"))
        return Part(layers, high + TOP + (24 if hidden else 8))

    def text(self) -> Iterator[tuple[str, str]]:
        """Yield how long each request waits in the whole run, and why."""
        for name, stretches in self.stretches.items():
            steps = "; ".join(f"{one.mark} {one.first}-{one.last}" for one in stretches)
            yield f"waits of {self.info.label(name)}", f"{self._sum(name)} ({steps})"

    def _sum(self, name: str) -> str:
        return waited_sentence(self.waited[name]).removeprefix("it ")

    def _sums(self, name: str) -> Iterator[str]:
        """Yield increasingly short versions of the reason a request waits."""
        yield self._sum(name)
        counts = self.waited[name].most_common()
        for num_named in range(len(counts), 0, -1):
            others = sum(number for _, number in counts[num_named:])
            words = waited_sentence(Counter(dict(counts[:num_named]))).partition(": ")[2]
            yield f"{words}, {others} more" if others else words

    def _head(self, place: int, name: str, step: int) -> Layer:
        index, label = self.info.index(name), self.info.label(name)
        found = self.steps[step].get("reasons", {}).get(name)
        now = [f"waits: {words_of(self.info, found)}"] if found else []
        about = "; ".join([*now, f"in all it {self._sum(name)}"])
        total = svg.text(LEFT - 20, ROW / 2 + 4.3, f"waits {self.waited[name].total()}", class_="mv-end mv-faint")
        ground = svg.rect(0, 0, LEFT - 20, ROW, fill="transparent")
        box = tile(index, label, 0, 1, 30, ROW - 3)
        drawn = svg.group(svg.tooltip(about), ground, box, total, data_request=str(index), class_="mv-link")
        return Layer(f"waits-head-{place}", drawn, x=12, y=TOP + place * ROW, data={"about": f"request:{index}"})

    def _rows(self, axis: StepAxis, scale: str) -> svg.Markup:
        rows = [self._row(name, axis, place) for place, name in enumerate(self.shown)]
        return svg.group(*rows, class_=f"mv-in-{scale}")

    def _row(self, name: str, axis: StepAxis, place: int) -> svg.Markup:
        parts, index = list[svg.Markup](), str(self.info.index(name))
        for one in self.stretches[name]:
            x, end = axis.x(one.first), axis.x(one.last + 1)
            when = f"step {one.first}" if one.first == one.last else f"steps {one.first} to {one.last}"
            box = marked(one.mark, one.mark, x, 1, end - x, ROW - 4)
            about = svg.tooltip(f"{when}: {one.words}")
            parts.append(svg.group(about, box, data_why=str(one.first), data_request=index, class_="mv-link"))
        parts.append(self._sum_beside(name, axis))
        return svg.group(*parts, transform=f"translate(0,{place * ROW})")

    def _sum_beside(self, name: str, axis: StepAxis) -> svg.Markup:
        """Draw the total wait in the widest gap between the request's waits."""
        ends = [(axis.x(one.first), axis.x(one.last + 1)) for one in self.stretches[name]]
        edges = [0.0, *(edge for pair in ends for edge in pair), max(axis.edges[-1], self.room)]
        rooms = list(zip(edges[::2], edges[1::2], strict=True))
        x, end = max(reversed(rooms), key=lambda room: room[1] - room[0])
        words = first_fitting(self._sums(name), end - x - 2 * APART)
        at = end - APART - text_width(words, 12) if end == edges[1] else x + APART
        return svg.text(at, ROW / 2 + 3, words, class_="mv-faint") if words else svg.Markup("")
