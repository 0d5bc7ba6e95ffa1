"""A claim from a public text, and the runs that decide it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from course.notebook.run_facts import RunFacts
from course.views.picture import Picture
from course.views.prediction import Answer, Question
from course.workloads.timed_request import TimedRequest
from mini_vllm.config import EngineConfig

SETTINGS = EngineConfig(
    max_num_seqs=8,
    max_num_batched_tokens=64,
    max_model_len=128,
    block_size=4,
    num_gpu_blocks=33,
    check_invariants=True,
)
Truth = Callable[..., Answer]


class Setup(NamedTuple):
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
    """A claim, the question about it, and how it is decided.

    `setups` are played on the learner's engine; `truth` finds the answer in the facts of these runs, and `step` the
    step to look at. A claim without setups is decided by `evidence`.
    """

    title: str
    claim: str
    setup: str
    question: Question
    why: str
    setups: Mapping[str, Setup] = field(default_factory=dict)
    truth: Truth | None = None
    step: Callable[[RunFacts], int] = lambda run: 0
    evidence: Callable[[], Evidence] | None = None


def request(name: str, prompt: Sequence[int], max_tokens: int, step: int = 0, priority: int = 0) -> TimedRequest:
    """Return a request: the token ids of its prompt, how many tokens it generates, its arrival step."""
    return TimedRequest(step, name, list(prompt), max_tokens, priority)


def true_or_false(subject: str) -> Question:
    """Ask whether the claim is true."""
    return Question("Is the claim true?", subject, "choice", ("true", "false"))


def whether(holds: Callable[..., bool]) -> Truth:
    """Return the answer to `true_or_false` from a condition."""
    return lambda *runs: "true" if holds(*runs) else "false"
