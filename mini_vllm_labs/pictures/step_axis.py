"""Positions a run's steps from left to right with equal or token-based widths, and draws their numbers, cursor and
columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.typeset import text_width

MAX_STEP_WIDTH = 44
MIN_STEP_WIDTH = 1.5
AXIS = 18
NUMBER, BEYOND = 12, 12
# The last interval is always wide enough.
INTERVALS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9)


@dataclass(frozen=True)
class TimeScale:
    """The width of a step in px: proportional to its tokens, but at least `least`."""

    per_token: float
    least: float

    @classmethod
    def fitting(cls, runs: Sequence[Sequence[int]], room: float) -> Self:
        """Return the largest scale at which all runs fit, with each run given as its steps' token counts."""
        least = min(MIN_STEP_WIDTH, room / max(1, *map(len, runs)))
        return cls(min(cls._per_token(sorted(num_tokens), least, room) for num_tokens in runs), least)

    @staticmethod
    def _per_token(ascending: Sequence[int], least: float, room: float) -> float:
        scale = room / max(1, sum(ascending))  # set aside the steps that would be too narrow, narrowest first
        for place, tokens in enumerate(ascending):
            if tokens * scale >= least:
                break
            scale = max(0.0, room - (place + 1) * least) / max(1, sum(ascending[place + 1 :]))
        return scale

    def width(self, num_tokens: int) -> float:
        return max(self.least, num_tokens * self.per_token)


@dataclass(frozen=True)
class StepAxis:
    """The positions of steps in px: step `first + k` extends from `edges[k]` to `edges[k + 1]`.

    Earlier and later steps have zero width at the ends of the axis.
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
        """Position steps with token-based widths, followed by steps of zero width up to `num_steps`."""
        widths = list(map(scale.width, num_tokens))
        return cls([*accumulate(widths, initial=0.0), *[sum(widths)] * (num_steps - len(num_tokens))])

    @property
    def num_steps(self) -> int:
        return len(self.edges) - 1

    def x(self, step: int) -> float:
        """Return the left edge of a step, which is the right edge of the previous step."""
        return self.edges[min(max(0, step - self.first), self.num_steps)]

    def width(self, step: int) -> float:
        return self.x(step + 1) - self.x(step)

    def middle(self, step: int) -> float:
        return (self.x(step) + self.x(step + 1)) / 2

    def has(self, step: int) -> bool:
        return 0 <= step - self.first < self.num_steps

    def numbers(self) -> svg.Markup:
        """Draw as many step numbers as fit; if all steps are equally wide, use the multiples of a round number."""
        every, drawn, end = 1, list[svg.Markup](), 0.0
        if self.is_even and self.num_steps:
            widest = text_width(str(self.first + self.num_steps), NUMBER) + 4
            every = next(interval for interval in INTERVALS if interval * self.width(self.first) >= widest)
        for step in range(-(-self.first // every) * every, self.first + self.num_steps, every):
            half = text_width(str(step), NUMBER) / 2
            middle = min(self.middle(step), self.edges[-1] + BEYOND - half)  # keeps a long number inside the picture
            if middle - half >= end and self.width(step):
                drawn.append(svg.text(middle, 14, str(step), class_="mv-middle mv-faint"))
                end = middle + half
        return svg.joined(drawn)

    def cursor(self, step: int, height: float, identity: str = "cursor") -> svg.Markup:
        """Draw the frame around a step; `identity` names the moving element."""
        x, width = self.x(step) - 1, self.width(step) + 2
        return svg.rect(x, -3, width, height + 6, rx=2, class_="mv-changed", data_id=identity)

    def columns(self, y: float, height: float) -> svg.Markup:
        """Draw an invisible column over each step that jumps to the step when clicked."""
        steps = range(self.first, self.first + self.num_steps)
        columns = [svg.rect(self.x(step), y, self.width(step), height, data_go_to=str(step)) for step in steps]
        return svg.group(*columns, fill="transparent", class_="mv-link")
