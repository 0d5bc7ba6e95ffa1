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
    """What decides a claim about a schedule: the answer in the facts of its runs, and the step to look at."""

    truth: Callable[..., Answer | bool]
    step: Callable[[RunFacts], int] = lambda run: 0


class Evidence(NamedTuple):
    """What decides a claim that is not about a schedule: its true answer, pictures, and the same as lines."""

    truth: Answer
    pictures: Sequence[Picture]
    text: str


@dataclass(frozen=True)
class Claim:
    """A claim, the question about it, its runs by name if it is about a schedule, and how it is decided."""

    title: str
    claim: str
    setup: str
    why: str
    question: Question
    setups: Mapping[str, ClaimSetup]
    decided_by: Decision | Callable[[], Evidence]
