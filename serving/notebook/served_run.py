"""What a server's engine has done so far: a run like those of the other notebooks, with the times of its requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from course.fresh.jobs import WorkloadRun, output_tokens
from course.notebook.record_codec import from_json
from mini_vllm.core.step_record import StepRecord


@dataclass(frozen=True)
class ServedRun(WorkloadRun):
    """A run from the server's first step on.

    `times` has the seconds of each request in the queue, until its first token, and until its last, as far as they are
    known; a recorded run has none. `unfinished` are the requests that are still there.
    """

    times: Mapping[str, Sequence[float]] = field(default_factory=dict)
    unfinished: Sequence[str] = ()

    @classmethod
    def of(cls, answer: Mapping[str, Any], times: Mapping[str, Sequence[float]], recorded: str) -> "ServedRun":
        """Return the run in a server's answer."""
        recording = from_json(answer["recording"])
        return cls(recording, output_tokens(recording), "", recorded, times, answer["unfinished"])

    @property
    def steps(self) -> Sequence[StepRecord]:
        """The records of all steps."""
        return self.recording.steps
