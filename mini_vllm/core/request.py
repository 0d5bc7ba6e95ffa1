"""One request: its tokens, its two counters, and one method per status change.

A request is fully computed when `num_computed_tokens` has caught up with `num_tokens`. Prefill and decode are not
separate modes: during prefill the counter is many tokens behind, during decode just one. (vLLM: `v1/request.py`.)
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

    In WAITING_FOR_FSM the request's grammar is still being compiled. In WAITING_FOR_REMOTE_KVS the request holds
    blocks whose K and V are still being loaded.
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


# constants, because in Python 3.11 looking up an enum member costs more than the comparison
RUNNING = RequestStatus.RUNNING
LAST_UNFINISHED = RequestStatus.PREEMPTED
FINISH_REASONS = {
    RequestStatus.FINISHED_STOPPED: "stop",
    RequestStatus.FINISHED_LENGTH_CAPPED: "length",
    RequestStatus.FINISHED_ABORTED: "abort",
    RequestStatus.FINISHED_ERROR: "error",
}


@dataclass(frozen=True, slots=True)
class MultiModalFeatureSpec:
    """One image in a prompt. Tokens `offset` to `offset + length - 1` are placeholders for its embeddings.

    Identical contents have identical identifiers. (vLLM: `multimodal/inputs.py`.)
    """

    identifier: str
    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


class Grammar(Protocol):
    """One request's position in its grammar.

    (vLLM: `StructuredOutputGrammar` in `v1/structured_output/backend_types.py`.)

    The end-of-text token belongs to the text: it is allowed where the text may end, and terminates the grammar.
    """

    @property
    def num_processed_tokens(self) -> int:
        """The number of tokens accepted so far, minus those rolled back."""

    def accept_tokens(self, request_id: str, tokens: Sequence[int]) -> bool:
        """Accept tokens up to the first that is not allowed; return whether all were accepted."""

    def validate_tokens(self, tokens: Sequence[int]) -> list[int]:
        """Return the longest prefix of `tokens` that could be accepted, without accepting it."""

    def rollback(self, num_tokens: int) -> None:
        """Undo the newest `num_tokens` accepted tokens."""

    def fill_bitmask(self, bitmask: Any, row: int) -> None:
        """Set a row's bits to 1 for each token that is allowed next. A terminated grammar allows all tokens.

        `bitmask` is an array of int32 [rows, cdiv(vocab, 32)]: bit i of word w stands for token 32 * w + i.
        """

    def is_terminated(self) -> bool: ...


@dataclass(slots=True, eq=False)
class Request:
    """One request as the scheduler sees it.

    `num_computed_tokens` counts the tokens whose K and V are in the cache, or will be when the planned step has run.
    Only the methods below change this counter. `num_cached_tokens` is the prefix hit at the first admission, and -1
    before that. `spec_token_ids` are the drafts for the next step: guesses, not yet tokens of the request.
    `num_output_placeholders` counts the output tokens that steps in flight will produce. Phases 7 and 8 maintain these
    two fields. `cache_salt` and `adapter_id` separate the cached blocks of tenants and adapters. `seed` seeds the
    request's random draws. Until `grammar` is compiled the request is WAITING_FOR_FSM. `mm_features` are the prompt's
    images in order. `tenant` and `service_level` are for scheduling policies; no phase reads them.
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
        """Return the compiled grammar. Raises `ValueError` if compiling it failed."""
        if self._compiled is None:
            assert self.grammar is not None
            # cached, because taking the future's lock costs half as much as filling a mask
            self._compiled = self.grammar.result()
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
        """Tokens that a step may compute after the known ones: the results of steps in flight, and the drafts."""
        return self.num_output_placeholders + len(self.spec_token_ids)

    @property
    def is_finished(self) -> bool:
        return self.status > LAST_UNFINISHED

    @property
    def finish_reason(self) -> str | None:
        """`stop`, `length`, `abort`, `error`, or None while the request is unfinished."""
        return FINISH_REASONS.get(self.status)

    def admit(self, num_computed_tokens: int) -> None:
        """Move from WAITING or PREEMPTED to RUNNING. `num_computed_tokens` is the length of the prefix hit, or 0."""
        self.status = RUNNING
        self.num_computed_tokens = num_computed_tokens

    def wait_for_remote_kvs(self) -> None:
        """Move from WAITING or PREEMPTED to WAITING_FOR_REMOTE_KVS, while K and V are loaded into the blocks."""
        self.status = RequestStatus.WAITING_FOR_REMOTE_KVS

    def become_ready(self, num_computed_tokens: int = 0) -> None:
        """Move from a WAITING_FOR status to WAITING or PREEMPTED. `num_computed_tokens` includes the loaded tokens."""
        self.status = RequestStatus.WAITING if self.num_cached_tokens < 0 else RequestStatus.PREEMPTED
        self.num_computed_tokens = num_computed_tokens

    def keep_computed(self, num_computed_tokens: int) -> None:
        """Set `num_computed_tokens`, either to include loaded K and V or to stop before the first lost block."""
        self.num_computed_tokens = num_computed_tokens

    def advance(self, num_new_tokens: int) -> None:
        """Count a planned step's tokens as computed. The first call records the previous count as the prefix hit."""
        if self.num_cached_tokens < 0:
            self.num_cached_tokens = self.num_computed_tokens
        self.num_computed_tokens += num_new_tokens

    def take_back(self, num_tokens: int) -> None:
        """Subtract the tokens of rejected drafts. The next tokens overwrite the K and V of the rejected drafts."""
        self.num_computed_tokens -= num_tokens

    def preempt(self) -> None:
        """Move from RUNNING to PREEMPTED. The tokens are kept; their K and V and the drafts are lost."""
        self.status = RequestStatus.PREEMPTED
        self.num_computed_tokens = 0
        self.spec_token_ids = []
        self.num_preemptions += 1

    def restart(self) -> None:
        """Return to the waiting queue from any status after a failed step, without counting a preemption."""
        is_compiled = self.grammar is None or self.grammar.done()
        unstarted = RequestStatus.WAITING if is_compiled else RequestStatus.WAITING_FOR_FSM
        self.status = unstarted if self.num_cached_tokens < 0 else RequestStatus.PREEMPTED
        self.num_computed_tokens = 0
        self.spec_token_ids = []
        self.num_output_placeholders = 0
        self.stop_reason = None

    def finish(self, status: RequestStatus, stop_reason: int | str | None = None) -> None:
        """Move to a final status. `stop_reason` is the stop token or string that ended the request."""
        # set first, because an interrupt must not leave a finished request without a stop reason
        self.stop_reason = stop_reason
        self.status = status

    def followed_by(self, token_ids: Sequence[int]) -> "Request":
        """Return a copy with these tokens appended, as if they had been sampled."""
        request = copy(self)
        request.all_token_ids = [*self.all_token_ids, *token_ids]
        return request

    def max_total_tokens(self, max_model_len: int) -> int:
        """Return the maximum number of tokens, prompt included, that the request can reach."""
        return min(self.num_prompt_tokens + self.sampling_params.max_tokens, max_model_len)
