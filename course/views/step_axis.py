"""The steps of a run from left to right: their numbers, the cursor, and columns that a click goes to."""

from dataclasses import dataclass

from course.views import svg
from course.views.parts import SPAN
from course.views.svg import Markup

MOST_STEP_WIDTH = 22
AXIS = 16
LEAST_APART = 28
INTERVALS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9)


@dataclass(frozen=True)
class StepAxis:
    """The places of `num_steps` steps."""

    num_steps: int

    @property
    def width(self) -> float:
        """The width of a step, in px."""
        return min(MOST_STEP_WIDTH, SPAN / max(1, self.num_steps))

    def x(self, step: float) -> float:
        """Return the left edge of a step."""
        return step * self.width

    def numbers(self) -> Markup:
        """Return the numbers of as many steps as have room."""
        every = next(interval for interval in INTERVALS if interval * self.width >= LEAST_APART)
        return svg.joined(
            svg.text(self.x(step + 0.5), 12, str(step), class_="mv-middle mv-small mv-faint")
            for step in range(0, self.num_steps, every)
        )

    def cursor(self, step: int, height: float) -> Markup:
        """Return the frame around a step."""
        return svg.rect(self.x(step) - 1, -3, self.width + 2, height + 6, rx=2, class_="mv-changed", data_id="cursor")

    def columns(self, y: float, height: float) -> Markup:
        """Return an invisible column over each step; a click on it goes to the step."""
        columns = [
            svg.rect(self.x(step), y, self.width, height, data_go_to=str(step)) for step in range(self.num_steps)
        ]
        return svg.group(*columns, fill="transparent", class_="mv-link")
