"""The data of one step: the plan, each request's share of it, and the runner's output."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mini_vllm.core.request import Request
from mini_vllm.outputs import TokenLogprobs


@dataclass(slots=True)
class Preempted:
    """One preemption: its victim, the request needing the blocks ("" for a reset), and the tokens returned to the
    budget."""

    victim_id: str
    cause_id: str
    num_tokens_returned: int


@dataclass(slots=True)
class SchedulerOutput:
    """The plan of one step: how many tokens of each request to compute, in order of service.

    `scheduled_spec_decode_tokens` holds each request's drafts, which are the last of its scheduled tokens.
    `num_preemptions` contains how many times each request had been preempted when this plan was made, for rules that
    need it when the tokens arrive.
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
    """One request's share of a step, as the runner receives it.

    The runner computes tokens `num_computed_tokens` to `num_computed_tokens + num_scheduled_tokens - 1` of
    `request.all_token_ids` in the slots of `block_ids`. The last of these tokens are `draft_token_ids`, which are not
    in `all_token_ids`. `draft_probs` [drafts, vocab] contains the distributions from which the drafts were drawn, or is
    None if no drafts were drawn at random. If layers have windows, `block_tables` has one table per group of layers;
    the first is `block_ids`.
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
        """Return the share for a forward pass, with a copy of the request whose `all_token_ids` include the drafts."""
        if not self.draft_token_ids:
            return self
        return replace(self, request=self.request.followed_by(self.draft_token_ids))


@dataclass(frozen=True, slots=True)
class KVConnectorOutput:
    """The worker side's report, sent with a step's output: finished transfers and lost blocks."""

    finished_recving: Sequence[str] = ()
    finished_sending: Sequence[str] = ()
    invalid_block_ids: frozenset[int] = frozenset()


@dataclass(slots=True)
class ModelRunnerOutput:
    """The result of a forward pass: new tokens keyed by request id, and an error per request with unusable logits.

    `draft_token_ids` are guesses at the following tokens, for the next step. `logprobs` has an entry for each token of
    a request that wants logprobs. `kv_connector_output` reports transfers of K and V.
    """

    sampled_token_ids: dict[str, list[int]]
    errors: dict[str, str] = field(default_factory=dict)
    draft_token_ids: dict[str, list[int]] = field(default_factory=dict)
    logprobs: dict[str, list[TokenLogprobs]] = field(default_factory=dict)
    kv_connector_output: KVConnectorOutput | None = None
