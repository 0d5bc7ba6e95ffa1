"""One request: its tokens, its two counters, and one method per change of its status.

A request is done computing when `num_computed_tokens` has caught up with `num_tokens`. There is no
prefill mode and no decode mode: a prompt is a request that is far behind, a decode is one token behind.
(vLLM: `v1/request.py`.)
"""

import enum
from collections.abc import Sequence
from concurrent.futures import Future
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Protocol

from mini_vllm.core.service_level import BEST_EFFORT, ServiceLevel
from mini_vllm.sampling_params import SamplingParams


class RequestStatus(enum.IntEnum):
    """The state of a request. Every status after `PREEMPTED` is final.

    A request that is WAITING_FOR_FSM has a grammar that is still being compiled; one that is WAITING_FOR_REMOTE_KVS
    holds blocks whose K and V are still being loaded.
    """

    WAITING = enum.auto()
    WAITING_FOR_FSM = enum.auto()
    WAITING_FOR_REMOTE_KVS = enum.auto()
    RUNNING = enum.auto()
    PREEMPTED = enum.auto()
    FINISHED_STOPPED = enum.auto()
    FINISHED_LENGTH_CAPPED = enum.auto()
    FINISHED_ABORTED = enum.auto()
    FINISHED_ERROR = enum.auto()


LAST_UNFINISHED = RequestStatus.PREEMPTED  # looked up once: in Python 3.11 that takes longer than the comparison
FINISH_REASONS = {
    RequestStatus.FINISHED_STOPPED: "stop",
    RequestStatus.FINISHED_LENGTH_CAPPED: "length",
    RequestStatus.FINISHED_ABORTED: "abort",
    RequestStatus.FINISHED_ERROR: "error",
}


@dataclass(frozen=True, slots=True)
class MultiModalFeatureSpec:
    """One image of a prompt: tokens `offset` to `offset + length - 1` stand for the embeddings of its content.

    Equal contents have equal identifiers. (vLLM: `multimodal/inputs.py`.)
    """

    identifier: str
    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


class Grammar(Protocol):
    """One request's place in its grammar. (vLLM: `StructuredOutputGrammar` in `v1/structured_output/backend_types.py`.)

    The end-of-text token belongs to the text: it is allowed where the text may end, and terminates the grammar.
    """

    @property
    def num_processed_tokens(self) -> int:
        """Tokens accepted so far, less those rolled back."""

    def accept_tokens(self, request_id: str, tokens: Sequence[int]) -> bool:
        """Move on by these tokens. False at the first one that is not allowed; those before it are accepted."""

    def validate_tokens(self, tokens: Sequence[int]) -> list[int]:
        """Return the first of these tokens, as many as could be accepted, and stay in place."""

    def rollback(self, num_tokens: int) -> None:
        """Take back the newest accepted tokens."""

    def fill_bitmask(self, bitmask: Any, row: int) -> None:
        """Set a row's bits: 1 for each token that is allowed next. When terminated all are.

        `bitmask` is an array of int32 [rows, cdiv(vocab, 32)]: bit i of word w is token 32 * w + i.
        """

    def is_terminated(self) -> bool: ...


@dataclass(slots=True, eq=False)
class Request:
    """One request as the scheduler sees it.

    `num_computed_tokens` counts the tokens whose K and V are in the cache, or will be when the planned
    step has run; only the methods below change it. `num_cached_tokens` is the prefix hit of the first
    admission, -1 before it. `spec_token_ids` are the drafts for the next step: guesses, not yet tokens of the
    request. `num_output_placeholders` counts the output tokens that steps in flight will bring; phases 7 and 8 maintain
    both. `cache_salt` and `adapter_id` keep the cached blocks of tenants and adapters apart. `seed` is the source of
    the request's random draws. Until `grammar` is compiled the request is WAITING_FOR_FSM. `mm_features` are the images
    of the prompt in their order. `tenant` and `service_level` are for scheduling policies; no phase reads
    them.
    """

    request_id: str
    prompt_token_ids: list[int]
    sampling_params: SamplingParams = field(default_factory=SamplingParams)
    eos_token_ids: frozenset[int] = frozenset()
    priority: int = 0
    arrival_time: float = 0.0
    cache_salt: str | None = None
    adapter_id: str | None = None
    seed: int = 0
    grammar: Future[Grammar] | None = None
    mm_features: tuple[MultiModalFeatureSpec, ...] = ()
    tenant: str = field(default="", repr=False)
    service_level: ServiceLevel = field(default=BEST_EFFORT, repr=False)

    status: RequestStatus = field(default=RequestStatus.WAITING, init=False)
    all_token_ids: list[int] = field(init=False)
    num_prompt_tokens: int = field(init=False)
    num_computed_tokens: int = field(default=0, init=False)
    num_cached_tokens: int = field(default=-1, init=False)
    num_preemptions: int = field(default=0, init=False)
    spec_token_ids: list[int] = field(default_factory=list, init=False)
    num_output_placeholders: int = field(default=0, init=False)
    stop_reason: int | str | None = field(default=None, init=False)
    block_hashes: list[bytes] = field(default_factory=list, init=False)
    _compiled: Grammar | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.all_token_ids = list(self.prompt_token_ids)
        self.num_prompt_tokens = len(self.prompt_token_ids)
        if self.grammar is not None and not self.grammar.done():
            self.status = RequestStatus.WAITING_FOR_FSM

    def compiled_grammar(self) -> Grammar:
        """Return the grammar once it is compiled. Raises `ValueError` if it could not be."""
        if self._compiled is None:
            assert self.grammar is not None
            self._compiled = self.grammar.result()  # asked in every step, and a future's lock costs half a mask
        return self._compiled

    @property
    def num_tokens(self) -> int:
        """Prompt and output tokens so far."""
        return len(self.all_token_ids)

    @property
    def num_output_tokens(self) -> int:
        return len(self.all_token_ids) - self.num_prompt_tokens

    @property
    def output_token_ids(self) -> list[int]:
        """A copy of the tokens generated so far."""
        return self.all_token_ids[self.num_prompt_tokens :]

    @property
    def num_tokens_ahead(self) -> int:
        """Tokens after the known ones that a step may compute: the results of steps in flight, and the drafts."""
        return self.num_output_placeholders + len(self.spec_token_ids)

    @property
    def is_finished(self) -> bool:
        return self.status > LAST_UNFINISHED

    @property
    def finish_reason(self) -> str | None:
        """`stop`, `length`, `abort`, `error`, or None while the request lives."""
        return FINISH_REASONS.get(self.status)

    def admit(self, num_computed_tokens: int) -> None:
        """WAITING or PREEMPTED to RUNNING. `num_computed_tokens` is the prefix hit, 0 without one."""
        self.status = RequestStatus.RUNNING
        self.num_computed_tokens = num_computed_tokens

    def wait_for_remote_kvs(self) -> None:
        """WAITING or PREEMPTED to WAITING_FOR_REMOTE_KVS: it holds blocks, and their K and V are being loaded."""
        self.status = RequestStatus.WAITING_FOR_REMOTE_KVS

    def become_ready(self, num_computed_tokens: int = 0) -> None:
        """A state of waiting for something to WAITING or PREEMPTED, with the tokens whose K and V have been loaded."""
        self.status = RequestStatus.WAITING if self.num_cached_tokens < 0 else RequestStatus.PREEMPTED
        self.num_computed_tokens = num_computed_tokens

    def keep_computed(self, num_computed_tokens: int) -> None:
        """Set what is computed: with K and V that came from elsewhere, or up to the first block that was lost."""
        self.num_computed_tokens = num_computed_tokens

    def advance(self, num_new_tokens: int) -> None:
        """Count the tokens of a planned step as computed. The first time, what was there before is the prefix hit."""
        if self.num_cached_tokens < 0:
            self.num_cached_tokens = self.num_computed_tokens
        self.num_computed_tokens += num_new_tokens

    def take_back(self, num_tokens: int) -> None:
        """Count computed tokens as not computed: rejected drafts, whose K and V the next tokens overwrite."""
        self.num_computed_tokens -= num_tokens

    def preempt(self) -> None:
        """RUNNING to PREEMPTED: the tokens stay, their K and V and the drafts are lost."""
        self.status = RequestStatus.PREEMPTED
        self.num_computed_tokens = 0
        self.spec_token_ids = []
        self.num_preemptions += 1

    def restart(self) -> None:
        """Any status to waiting, because a step failed. No preemption is counted."""
        is_compiled = self.grammar is None or self.grammar.done()
        unstarted = RequestStatus.WAITING if is_compiled else RequestStatus.WAITING_FOR_FSM
        self.status = unstarted if self.num_cached_tokens < 0 else RequestStatus.PREEMPTED
        self.num_computed_tokens = 0
        self.spec_token_ids = []
        self.num_output_placeholders = 0
        self.stop_reason = None

    def finish(self, status: RequestStatus, stop_reason: int | str | None = None) -> None:
        """Any status to a final one. `stop_reason` is the stop token or string that ended the request."""
        self.stop_reason = stop_reason  # first: an interrupt in between must not end a request without its reason
        self.status = status

    def followed_by(self, token_ids: Sequence[int]) -> "Request":
        """Return a copy with these tokens appended, as if they had been sampled."""
        request = copy(self)
        request.all_token_ids = [*self.all_token_ids, *token_ids]
        return request

    def max_total_tokens(self, max_model_len: int) -> int:
        """Return the maximum number of tokens, prompt included, that the request can reach."""
        return min(self.num_prompt_tokens + self.sampling_params.max_tokens, max_model_len)
