"""A claim from a public text, and what decides it: runs of the learner's engine, or other evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mini_vllm.config import EngineConfig
from mini_vllm_labs.pictures.picture import Picture
from mini_vllm_labs.pictures.prediction import Answer, Question
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest


class ClaimSetup(NamedTuple):
    """What is played: the requests, with arrival times in steps, and the engine's settings."""

    arrivals: Sequence[TimedRequest]
    config: EngineConfig


class Evidence(NamedTuple):
    """What decides a claim that is not about a schedule: its true answer, pictures, and the same as lines."""

    truth: Answer
    pictures: Sequence[Picture]
    text: str


@dataclass(frozen=True)
class Claim:
    """A claim and the question about it.

    If it is about a schedule it has runs by name, and lines about their facts (see `truths.fact`): the true answer, and
    the step to look at. Else its evidence decides it.
    """

    title: str
    claim: str
    setup: str
    why: str
    question: Question
    setups: Mapping[str, ClaimSetup]
    decided_by: str
    step: str
