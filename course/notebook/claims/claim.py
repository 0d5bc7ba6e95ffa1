"""A claim from a public text, and what decides it: runs of the learner's engine, or other evidence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from course.notebook.run_facts import RunFacts
from course.views.picture import Picture
from course.views.prediction import Answer, Question
from course.workloads.timed_request import TimedRequest
from mini_vllm.config import EngineConfig


class ClaimSetup(NamedTuple):
    """What is played: the requests, with arrival times in steps, and the engine's settings."""

    arrivals: Sequence[TimedRequest]
    config: EngineConfig


class Decision(NamedTuple):
    """The runs that decide a claim, by name; the answer in the facts of these runs; and the step to look at."""

    setups: Mapping[str, ClaimSetup]
    truth: Callable[..., Answer | bool]
    step: Callable[[RunFacts], int] = lambda run: 0


class Evidence(NamedTuple):
    """What decides a claim that is not about a schedule: its true answer, pictures, and the same as lines."""

    truth: Answer
    pictures: Sequence[Picture]
    text: str


@dataclass(frozen=True)
class Claim:
    """A claim, the question about it, and how it is decided."""

    title: str
    claim: str
    setup: str
    why: str
    question: Question
    decided_by: Decision | Callable[[], Evidence]

    @property
    def setups(self) -> Mapping[str, ClaimSetup]:
        """The runs of a claim about a schedule."""
        return self.decided_by.setups if isinstance(self.decided_by, Decision) else {}
