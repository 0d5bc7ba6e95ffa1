"""What is passed around in one step: the plan, each request's share of it, and the runner's output."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mini_vllm.core.request import Request
from mini_vllm.outputs import TokenLogprobs


@dataclass(slots=True)
class Preempted:
    """One preemption: the victim, the request that needed its blocks ("": a reset), the tokens it gave back."""

    victim_id: str
    cause_id: str
    num_tokens_returned: int


@dataclass(slots=True)
class SchedulerOutput:
    """The plan of one step: how many tokens of which request, in order of service.

    `scheduled_spec_decode_tokens` are the drafts among them, the last tokens of their requests. `num_preemptions`
    is how often each had been preempted by then, under rules that ask for it when the tokens arrive.
    """

    token_budget: int
    num_scheduled_tokens: dict[str, int] = field(default_factory=dict)
    preempted: list[Preempted] = field(default_factory=list)
    scheduled_spec_decode_tokens: dict[str, list[int]] = field(default_factory=dict)
    num_preemptions: dict[str, int] = field(default_factory=dict)

    @property
    def total_num_scheduled_tokens(self) -> int:
        return sum(self.num_scheduled_tokens.values())


@dataclass(slots=True)
class ScheduledRequest:
    """One request's share of a step, as the runner gets it.

    Computes tokens `num_computed_tokens` to `num_computed_tokens + num_scheduled_tokens - 1` of
    `request.all_token_ids`, in the slots that `block_ids` gives them. `draft_token_ids` are the last of them: they
    are not in `all_token_ids`. `draft_probs` [drafts, vocab] is a tensor with the distributions that they were drawn
    from, None if nothing was drawn. `block_tables` has a table for each group of layers, the first of which is
    `block_ids`, if layers have windows.
    """

    request: Request
    num_computed_tokens: int
    num_scheduled_tokens: int
    block_ids: list[int]
    needs_token: bool
    draft_token_ids: Sequence[int] = ()
    draft_probs: Any = None
    block_tables: Sequence[list[int]] = ()

    def with_drafts(self) -> "ScheduledRequest":
        """Return the share as a forward pass reads it: of a copy of the request with the drafts in `all_token_ids`."""
        if not self.draft_token_ids:
            return self
        return replace(self, request=self.request.followed_by(self.draft_token_ids))


@dataclass(frozen=True, slots=True)
class KVConnectorOutput:
    """What the worker side reports with a step's output: transfers that have ended, and blocks that were lost."""

    finished_recving: Sequence[str] = ()
    finished_sending: Sequence[str] = ()
    invalid_block_ids: frozenset[int] = frozenset()


@dataclass(slots=True)
class ModelRunnerOutput:
    """The result of a forward pass: new tokens by request id, and an error for each request with unusable logits.

    `draft_token_ids` are guesses of the following tokens, for the next step. `logprobs` has an entry for each token of
    the requests that ask for them. `kv_connector_output` are the transfers of K and V that have ended.
    """

    sampled_token_ids: dict[str, list[int]]
    errors: dict[str, str] = field(default_factory=dict)
    draft_token_ids: dict[str, list[int]] = field(default_factory=dict)
    logprobs: dict[str, list[TokenLogprobs]] = field(default_factory=dict)
    kv_connector_output: KVConnectorOutput | None = None
