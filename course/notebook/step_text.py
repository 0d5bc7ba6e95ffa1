"""A run as text in a cell: a line for each step."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from course.notebook.jobs import ChatRun, WorkloadRun
from course.notebook.notice import Notice, show
from course.terminal.step_line import LineWriter
from course.traces.recording import Recording
from course.traces.run_state import RunState

T = TypeVar("T")


@dataclass(frozen=True)
class StepText:
    """Lines of text; a cell that ends in it shows them as they are."""

    lines: tuple[str, ...]

    def __repr__(self) -> str:
        return "\n".join(self.lines)


def as_text(run: WorkloadRun | ChatRun | Notice) -> StepText | Notice:
    """Return a line for each step of a run, and one for several steps in which the same requests only decode."""
    text: StepText | Notice = show(
        lambda run: StepText((*filter(None, [run.recorded]), *step_lines(run.recording))), run
    )
    return text


def step_lines(recording: Recording) -> list[str]:
    """Return the lines as `mini-vllm trace` prints them to a pipe."""
    lines: list[str] = []
    state, writer = RunState(recording.info), LineWriter(lines.append)
    for record in recording.steps:
        state.advance(record)
        writer.add(state)
    writer.flush()
    return lines


def each_as_text(results: Mapping[str, T | Notice], describe: Callable[[T], object]) -> StepText | Notice:
    """Return each name with `describe` of its result, or the first of the results that is a `Notice`."""
    width = max(map(len, results), default=0)
    lines = []
    for name, result in results.items():
        if isinstance(result, Notice):
            return result
        lines.append(f"{name:{width}}  {describe(result)}")
    return StepText(tuple(lines))
