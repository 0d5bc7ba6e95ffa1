"""Defines a claim from a public text and its proof: runs of the learner's engine, or other evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mini_vllm.config import EngineConfig
from mini_vllm_labs.pictures.picture import Picture
from mini_vllm_labs.pictures.prediction import Answer, Question
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest


class ClaimSetup(NamedTuple):
    """The input to a run: the requests, with arrival times in steps, and the engine's settings."""

    arrivals: Sequence[TimedRequest]
    config: EngineConfig


class Evidence(NamedTuple):
    """Evidence for a claim that is not about a schedule: the true answer, pictures, and a text version."""

    truth: Answer
    pictures: Sequence[Picture]
    text: str


@dataclass(frozen=True)
class Claim:
    """A claim and the question about it.

    A claim about a schedule has named runs and two expressions over their facts (see `truths.fact`): the true answer
    and the step to show. Any other claim is decided by evidence.
    """

    title: str
    claim: str
    setup: str
    why: str
    question: Question
    setups: Mapping[str, ClaimSetup]
    decided_by: str
    step: str
