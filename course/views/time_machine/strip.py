"""The timeline of a run alone, small enough for a card."""

from dataclasses import replace

from course.traces.recording import Recording
from course.traces.sentences import describe_step
from course.views.parts import WIDTHS, headline_part, page, span_of
from course.views.picture import WIDTH, Picture
from course.views.step_axis import StepAxis
from course.views.text import counted
from course.views.time_machine.machine import histories_of, text_alternative
from course.views.time_machine.timeline import Timeline


def run_strip(recording: Recording, name: str, step: int, width: float = WIDTH) -> Picture:
    """Return the timeline of a run with one of its steps framed, and what happened in this step as the sentence."""
    num_steps, histories = len(recording.steps), histories_of(recording)
    state, last = recording.state(step), recording.state(num_steps - 1)
    timeline = Timeline(recording.info, histories, {"steps": StepAxis.even(num_steps, span_of(width))})
    part = timeline.part(last, step)
    sentence = f"Step {step}: {describe_step(state)}"
    head = headline_part(name, f"{counted(num_steps, 'step')}, {counted(last.num_preemptions, 'preemption')}", width)
    text = text_alternative(last, histories, num_steps)
    drawn = page(f"{name}, step {step}", [head, part], sentence, text, width)
    return drawn if width <= WIDTHS[0] else replace(drawn, narrow=run_strip(recording, name, step, WIDTHS[0]))
