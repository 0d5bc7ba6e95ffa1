"""What is passed around in one step: the plan, each request's share of it, and the runner's output."""

from dataclasses import dataclass, field

from mini_vllm.core.request import Request


@dataclass(slots=True)
class Preempted:
    """One preemption: the victim, the request that needed its blocks, and the tokens returned to the budget."""

    victim_id: str
    cause_id: str
    num_tokens_returned: int


@dataclass(slots=True)
class SchedulerOutput:
    """The plan of one step: how many tokens of which request, in order of service."""

    token_budget: int
    num_scheduled_tokens: dict[str, int] = field(default_factory=dict)
    preempted: list[Preempted] = field(default_factory=list)

    @property
    def total_num_scheduled_tokens(self) -> int:
        return sum(self.num_scheduled_tokens.values())


@dataclass(slots=True)
class ScheduledRequest:
    """One request's share of a step, as the runner gets it.

    Computes tokens `num_computed_tokens` to `num_computed_tokens + num_scheduled_tokens - 1` of
    `request.all_token_ids`, in the slots that `block_ids` gives them.
    """

    request: Request
    num_computed_tokens: int
    num_scheduled_tokens: int
    block_ids: list[int]
    needs_token: bool


@dataclass(slots=True)
class ModelRunnerOutput:
    """The result of a forward pass: new tokens by request id, and an error for each request with unusable logits."""

    sampled_token_ids: dict[str, list[int]]
    errors: dict[str, str] = field(default_factory=dict)
