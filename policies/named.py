"""The policies by name, for command lines and notebooks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy
from policies.feedback_queues import FeedbackQueues
from policies.least_slack import LeastSlack
from policies.length_ranker import LengthRanker
from policies.predictors import noisy, oracle
from policies.priority import Priority
from policies.shortest_first import ShortestFirst
from policies.two_classes import TwoClasses
from policies.virtual_token_counter import VirtualTokenCounter

OutputLengths = Mapping[str, int]  # the true length of each output, by request id: for predictors alone
SIGMA = 0.3  # of the noisy predictions: two of three within a factor of 1.35


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """What a policy does in one sentence, and how a fresh one is made for a run."""

    text: str
    make: Callable[[OutputLengths], SchedulingPolicy]


POLICIES: dict[str, NamedPolicy] = {
    "fcfs": NamedPolicy("first come, first served", lambda lengths: SchedulingPolicy()),
    "priority": NamedPolicy("the lowest priority first, then the earliest", lambda lengths: Priority()),
    "sjf": NamedPolicy(
        "the shortest output first, if lengths were known", lambda lengths: ShortestFirst(oracle(lengths))
    ),
    "sjf-noisy": NamedPolicy(
        "the shortest output first, by guesses within a factor of 1.35",
        lambda lengths: ShortestFirst(noisy(lengths, SIGMA)),
    ),
    "sjf-ranked": NamedPolicy(
        "the shortest output first, by a ranker trained on the embedded model's answers",
        lambda lengths: ShortestFirst(LengthRanker.trained()),
    ),
    "srtf": NamedPolicy(
        "the same with known lengths, and a shorter request takes the slot of a longer one",
        lambda lengths: ShortestFirst(oracle(lengths), preempts=True),
    ),
    "feedback-queues": NamedPolicy(
        "who has been served for long sinks a level (FastServe)", lambda lengths: FeedbackQueues()
    ),
    "least-slack": NamedPolicy("the nearest deadline first, less the time it takes", lambda lengths: LeastSlack()),
    "two-classes": NamedPolicy("the urgent first, with a quarter of each step reserved", lambda lengths: TwoClasses()),
    "vtc": NamedPolicy("the tenant served least goes first", lambda lengths: VirtualTokenCounter()),
}
