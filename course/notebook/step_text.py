"""A run as lines of text."""

from course.terminal.step_line import LineWriter
from course.traces.recording import Recording
from course.traces.run_state import RunState


def step_lines(recording: Recording) -> list[str]:
    """Return the lines as `mini-vllm trace` prints them to a pipe."""
    lines: list[str] = []
    state, writer = RunState(recording.info), LineWriter(lines.append)
    for record in recording.steps:
        state.advance(record)
        writer.add(state)
    writer.flush()
    return lines
