"""The steps of a run from left to right, equally wide or as wide as their tokens: numbers, cursor, columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.typeset import text_width

MAX_STEP_WIDTH = 44
MIN_STEP_WIDTH = 1.5
AXIS = 18
NUMBER = 12
# The last one always has room.
INTERVALS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9)


@dataclass(frozen=True)
class TimeScale:
    """How wide a step of some tokens is, in px: in proportion to them, but never less than `least`."""

    per_token: float
    least: float

    @classmethod
    def fitting(cls, runs: Sequence[Sequence[int]], room: float) -> Self:
        """Return the largest scale on which each run fits; a run is the numbers of tokens of its steps."""
        least = min(MIN_STEP_WIDTH, room / max(1, *map(len, runs)))
        return cls(min(cls._per_token(sorted(num_tokens), least, room) for num_tokens in runs), least)

    @staticmethod
    def _per_token(ascending: Sequence[int], least: float, room: float) -> float:
        scale = room / max(1, sum(ascending))  # steps that would be too narrow are set aside, the narrowest first
        for place, tokens in enumerate(ascending):
            if tokens * scale >= least:
                break
            scale = max(0.0, room - (place + 1) * least) / max(1, sum(ascending[place + 1 :]))
        return scale

    def width(self, num_tokens: int) -> float:
        return max(self.least, num_tokens * self.per_token)


@dataclass(frozen=True)
class StepAxis:
    """The places of the steps from `first` on, in px: step `first + k` lies between `edges[k]` and `edges[k + 1]`.

    Steps before the first one and after the last one lie at the ends of the axis and have no width.
    """

    edges: Sequence[float]
    is_even: bool = False
    first: int = 0

    @classmethod
    def even(cls, num_steps: int, room: float, first: int = 0) -> Self:
        width = min(MAX_STEP_WIDTH, room / max(1, num_steps))
        return cls([width * step for step in range(num_steps + 1)], is_even=True, first=first)

    @classmethod
    def in_time(cls, num_tokens: Sequence[int], scale: TimeScale, num_steps: int) -> Self:
        """Return steps as wide as their tokens, and steps without width up to `num_steps`."""
        widths = list(map(scale.width, num_tokens))
        return cls([*accumulate(widths, initial=0.0), *[sum(widths)] * (num_steps - len(num_tokens))])

    @property
    def num_steps(self) -> int:
        return len(self.edges) - 1

    def x(self, step: int) -> float:
        """Return the left edge of a step, or the right edge of the step before it."""
        return self.edges[min(max(0, step - self.first), self.num_steps)]

    def width(self, step: int) -> float:
        return self.x(step + 1) - self.x(step)

    def middle(self, step: int) -> float:
        return (self.x(step) + self.x(step + 1)) / 2

    def has(self, step: int) -> bool:
        return 0 <= step - self.first < self.num_steps

    def numbers(self) -> svg.Markup:
        """Return the step numbers that have room: of equally wide steps the multiples of a round number."""
        every, drawn, end = 1, list[svg.Markup](), 0.0
        if self.is_even and self.num_steps:
            widest = text_width(str(self.first + self.num_steps), NUMBER) + 4
            every = next(interval for interval in INTERVALS if interval * self.width(self.first) >= widest)
        for step in range(-(-self.first // every) * every, self.first + self.num_steps, every):
            half = text_width(str(step), NUMBER) / 2
            if self.middle(step) - half >= end and self.width(step):
                drawn.append(svg.text(self.middle(step), 14, str(step), class_="mv-middle mv-faint"))
                end = self.middle(step) + half
        return svg.joined(drawn)

    def cursor(self, step: int, height: float, identity: str = "cursor") -> svg.Markup:
        """Return the frame around a step; `identity` is the name under which it moves."""
        x, width = self.x(step) - 1, self.width(step) + 2
        return svg.rect(x, -3, width, height + 6, rx=2, class_="mv-changed", data_id=identity)

    def columns(self, y: float, height: float) -> svg.Markup:
        """Return an invisible column over each step; a click on it goes to the step."""
        steps = range(self.first, self.first + self.num_steps)
        columns = [svg.rect(self.x(step), y, self.width(step), height, data_go_to=str(step)) for step in steps]
        return svg.group(*columns, fill="transparent", class_="mv-link")
