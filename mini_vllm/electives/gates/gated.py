"""Combines all gates and connects them to phases 1, 2 and 5 through a queue, chunk policy and KV cache."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypedDict

from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, RequestQueue
from mini_vllm.core.request import RUNNING, Request, RequestStatus
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import KVConnectorOutput, SchedulerOutput
from mini_vllm.electives.gates.encoder_gate import EncoderGate
from mini_vllm.electives.gates.gate import Gate, failure_of
from mini_vllm.electives.gates.kv_transfers import KVTransfers
from mini_vllm.electives.gates.passing_queue import Look, PassingQueue
from mini_vllm.electives.wrappers import WrappedChunks, WrappedKVCache

UNREADY = (RequestStatus.WAITING_FOR_FSM, RequestStatus.WAITING_FOR_REMOTE_KVS)


class ChangedGates(TypedDict, total=False):
    """Optional arguments of `AdmissionGates` for a release after 0.13.0."""

    num_tokens_left: Callable[[], int]
    counted: Callable[[], Sequence[Request]]


class AdmissionGates:
    """The gates of one engine. The scheduler uses this class's `waiting`, `chunks` and `kv`, which wrap the parts."""

    passes_over = True

    def __init__(
        self,
        gates: Sequence[Gate],
        transfers: KVTransfers | None,
        *,
        waiting: RequestQueue,
        chunks: ChunkPolicy,
        kv: KVCacheManager,
        num_tokens_left: Callable[[], int] | None = None,
        counted: Callable[[], Sequence[Request]] = tuple,
    ) -> None:
        self.gates = gates
        # requests that count as planned from the start: since 0.33, these are all running requests
        self.counted = counted
        # Since 0.33, a request is also skipped if the gates do not let it use any of the remaining budget.
        self.num_tokens_left = num_tokens_left
        # requests that have ended, but whose blocks may still be written by a step in flight
        self.leaving: Collection[str] = ()
        # Why a step skipped or limited requests, keyed by request id.
        self.whys: dict[str, str] = {}
        self._errors: dict[str, str] = {}
        self._is_stalled = False
        self.transfers = transfers
        self.waiting = PassingQueue(waiting, self._look)
        self.chunks = GatedChunks(chunks, self)
        self.kv = GatedKVCache(kv, self)

    @property
    def has_connector(self) -> bool:
        return self.transfers is not None

    @property
    def requests_being_sent(self) -> Sequence[str]:
        return () if self.transfers is None else (*self.transfers.sending, *self.leaving)

    @property
    def num_deferred(self) -> int:
        return len(self.waiting.deferred)

    @property
    def awaits_others(self) -> bool:
        # If nothing else can advance, a later step takes the blocks from a waiting request that holds some.
        transfers = self.transfers
        is_transferring = transfers is not None and (bool(transfers.sending) or transfers.is_asking)
        # Requests whose grammar failed end in this step, even if they were never UNREADY.
        return (
            is_transferring
            or bool(self._errors)
            or any(request.status in UNREADY or request.num_computed_tokens for request in self.waiting)
        )

    def take_errors(self) -> dict[str, str]:
        errors, self._errors = self._errors, {}
        return errors

    def start_step(self) -> None:
        self.waiting.start_step()
        self.whys = {}
        for gate in self.gates:
            gate.start_step()
        for request in self.counted():
            for gate in self.gates:
                gate.slots_allocated(request)
        if self.transfers is not None:
            self.transfers.start_step()

    def end_plan(self, scheduler_output: SchedulerOutput, requests: Mapping[str, Request]) -> None:
        self.waiting.put_back()
        # Phase 1 counts only full hit blocks, so the loaded tokens are counted here.
        for request_id, num_tokens in self.kv.num_loaded_tokens.items():
            if request_id in scheduler_output.num_scheduled_tokens:
                requests[request_id].keep_computed(num_tokens)
        self.kv.num_loaded_tokens = {}
        self._is_stalled = self._is_stalled and not scheduler_output.num_scheduled_tokens

    def break_stall(self, requests: Collection[Request]) -> bool:
        """Release all images at a point where vLLM 0.13.0 would stall forever; return whether any were released.

        A refused request uses images that its hit did not cover. If the hit shrinks before the request is admitted, it
        also needs an earlier image. The later image that it already uses may leave no room for the earlier one.
        """
        if self._is_stalled:
            return False  # releasing the images did not help
        given_up = [gate.give_up(request) for gate in self.gates for request in requests]
        self._is_stalled = any(given_up)
        return self._is_stalled

    def advanced(self, scheduler_output: SchedulerOutput, requests: Mapping[str, Request]) -> None:
        for request_id in scheduler_output.num_scheduled_tokens:
            for gate in self.gates:
                gate.advanced(requests[request_id])

    def processed(self, request: Request) -> None:
        """Inform the gates that a step's output, which includes this request, has arrived.

        The request's tokens have not been applied yet.
        """
        for gate in self.gates:
            gate.processed(request)

    def refused(self, request: Request) -> None:
        """Inform the gates that too few blocks were free for a waiting request."""
        for gate in self.gates:
            gate.refused(request)

    def without_lost(
        self, sampled: dict[str, list[int]], output: KVConnectorOutput | None, running: Sequence[Request]
    ) -> dict[str, list[int]]:
        if self.transfers is None or output is None or not output.invalid_block_ids:
            return sampled
        lost = self.transfers.lose(output.invalid_block_ids, tuple(self.waiting), running)
        return {request_id: tokens for request_id, tokens in sampled.items() if request_id not in lost}

    def end_step(self, output: KVConnectorOutput | None, *, is_idle: bool, has_sampled: bool) -> None:
        if self.transfers is not None:
            if output is not None:
                self.transfers.apply(output)
            self.transfers.end_step(tuple(self.waiting), is_idle=is_idle, has_sampled=has_sampled)

    def _look(self, request: Request) -> Look:
        if (why := failure_of(request)) is not None:
            self._errors[request.request_id], self.whys[request.request_id] = why, "failed"
            return Look.PASS_OVER
        if self.transfers is not None and not self.transfers.has_arrived(request):
            return Look.PASS_OVER
        for gate in self.gates:
            if not gate.is_open(request):
                self.whys[request.request_id] = gate.reason
                return Look.PASS_OVER
        answer = Look.READY if self.transfers is None else self.transfers.look(request)
        if answer is Look.PASS_OVER:
            self.whys[request.request_id] = "transfer"
        elif answer is Look.STOP:
            self.whys[request.request_id] = "blocks"
            self.refused(request)
        return Look.PASS_OVER if answer is Look.READY and self._leaves_nothing(request) else answer

    def _leaves_nothing(self, request: Request) -> bool:
        if self.num_tokens_left is None or not any(gate.may_limit(request) for gate in self.gates):
            return False
        num_hit_tokens = len(self.kv.get_computed_blocks(request)) * self.kv.block_size
        num_computed_tokens = self.kv.num_computed_tokens(request, num_hit_tokens)
        num_new_tokens = self.chunks.inner.num_new_tokens(request, num_computed_tokens, self.num_tokens_left())
        return num_new_tokens > 0 and self.chunks.limited(request, num_computed_tokens, num_new_tokens) == 0


def encoder_of(scheduler: Scheduler) -> EncoderGate | None:
    """Return the gate for images, or None if the engine serves no images."""
    gates = scheduler.gates.gates if isinstance(scheduler.gates, AdmissionGates) else ()
    return next((gate for gate in gates if isinstance(gate, EncoderGate)), None)


def transfers_of(scheduler: Scheduler) -> KVTransfers | None:
    """Return the scheduler's side of KV transfers, or None if KV transfer is off. A restart replaces this object."""
    return scheduler.gates.transfers if isinstance(scheduler.gates, AdmissionGates) else None


class GatedChunks(WrappedChunks):
    """A `ChunkPolicy` that grants no tokens to waiting requests that are not ready, and applies the gates' limits to
    chunks."""

    def __init__(self, inner: ChunkPolicy, gates: AdmissionGates) -> None:
        super().__init__(inner)
        self.gates = gates

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        if request.status is not RUNNING:
            if not self.gates.waiting.is_ready(request):
                return 0
            num_computed_tokens = self.gates.kv.num_computed_tokens(request, num_computed_tokens)
        num_new_tokens = self.inner.num_new_tokens(request, num_computed_tokens, token_budget)
        return self.limited(request, num_computed_tokens, num_new_tokens)

    def limited(self, request: Request, num_computed_tokens: int, num_new_tokens: int) -> int:
        """Return how many of a request's next tokens the gates allow."""
        for gate in self.gates.gates:
            if num_new_tokens:
                num_before = num_new_tokens
                num_new_tokens = gate.limit(request, num_computed_tokens, num_new_tokens)
                if num_new_tokens < num_before:
                    self.gates.whys[request.request_id] = gate.reason
        return num_new_tokens


class GatedKVCache(WrappedKVCache):
    """A `KVCacheManager` that reports allocations and frees to the gates, and adds slots for loaded tokens.

    For each request that is admitted in this step with loaded tokens, `num_loaded_tokens` holds its true number of
    computed tokens.
    """

    def __init__(self, inner: KVCacheManager, gates: AdmissionGates) -> None:
        super().__init__(inner)
        self.gates = gates
        self.num_loaded_tokens: dict[str, int] = {}

    def num_computed_tokens(self, request: Request, num_hit_tokens: int) -> int:
        """Return a waiting request's computed tokens: those already loaded, or its hit plus this step's load."""
        transfers = self.gates.transfers
        num_external = transfers.num_external_tokens.get(request.request_id, 0) if transfers else 0
        return request.num_computed_tokens or num_hit_tokens + num_external

    def get_computed_blocks(self, request: Request) -> list[int]:
        return [] if request.num_computed_tokens else self.inner.get_computed_blocks(request)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        num_hit_tokens, is_waiting = len(hit_blocks) * self.block_size, request.status is not RUNNING
        num_computed_tokens = self.num_computed_tokens(request, num_hit_tokens)
        num_external = num_computed_tokens - num_hit_tokens if is_waiting and not request.num_computed_tokens else 0
        num_slots = num_new_tokens + num_external
        new_blocks = self.inner.allocate_slots(request, num_slots, hit_blocks, num_lookahead_tokens)
        if new_blocks is None:
            if is_waiting:
                self.gates.refused(request)
            return None
        if is_waiting and num_computed_tokens > num_hit_tokens:
            self.num_loaded_tokens[request.request_id] = num_computed_tokens
        if is_waiting and self.gates.transfers is not None:
            self.gates.transfers.tell_allocated(request, num_external)
        for gate in self.gates.gates:
            gate.slots_allocated(request)
        return new_blocks

    def free(self, request: Request, num_computed_tokens: int) -> None:
        for gate in self.gates.gates:
            gate.freed(request)
        transfers = self.gates.transfers
        if transfers is None:
            self.inner.free(request, num_computed_tokens)
        elif request.is_finished:
            transfers.free_ended(request, num_computed_tokens)
        else:
            transfers.free_preempted(request, num_computed_tokens)
