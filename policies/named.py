"""The policies by name, for command lines and notebooks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy
from policies.priority import Priority

OutputLengths = Mapping[str, int]  # the true length of each output, by request id: for predictors alone


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """What a policy does in one sentence, and how a fresh one is made for a run."""

    text: str
    make: Callable[[OutputLengths], SchedulingPolicy]


POLICIES: dict[str, NamedPolicy] = {
    "fcfs": NamedPolicy("first come, first served", lambda lengths: SchedulingPolicy()),
    "priority": NamedPolicy("the lowest priority first, then the earliest", lambda lengths: Priority()),
}
