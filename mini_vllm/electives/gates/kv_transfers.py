"""Manages requests that load K and V from elsewhere, and ended requests whose K and V are still being sent.

A load within the step (`is_async` False) extends the prefix hit. For a load that takes several steps, the request
allocates its blocks immediately and waits as WAITING_FOR_REMOTE_KVS. The blocks enter the prefix cache after they are
filled. (vLLM: the connector's parts of `Scheduler.schedule`, `_update_waiting_for_remote_kv`,
`_handle_invalid_blocks`.)
"""

from collections.abc import Iterable, Sequence

from mini_vllm.core.interfaces import KVCacheManager
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import KVConnectorOutput
from mini_vllm.electives.gates.connector import KVConnector
from mini_vllm.electives.gates.passing_queue import Look
from mini_vllm.electives.prefix_caches import DelayedCommits

MAX_STEPS_IN_VAIN = 4


class KVTransfers:
    """The scheduler's side of all transfers. `kv` and `commits` are phases 2 and 4 with their wrappers.

    With `keeps_loads`, tokens count as computed when their load begins. The blocks of an aborted load then stay
    allocated until the load is reported as ended, because it may still write to them.
    """

    def __init__(
        self, connector: KVConnector, kv: KVCacheManager, commits: DelayedCommits, *, keeps_loads: bool = False
    ) -> None:
        self.keeps_loads = keeps_loads
        self.connector = connector
        self.kv = kv
        self.commits = commits
        self.num_external_tokens: dict[str, int] = {}
        self.sending: dict[str, tuple[Request, int]] = {}
        self.loading: dict[str, int] = {}
        self.is_asking = False
        # hit length and token count at the last load that got no blocks
        self.refused_load: tuple[Sequence[int], int] = ((), 0)
        self._num_hit_tokens: dict[str, int] = {}
        self._received: set[str] = set()
        self._failed: set[str] = set()
        self._local_only: set[str] = set()
        self._num_steps_in_vain = 0

    def start_step(self) -> None:
        self.num_external_tokens, self.loading, self.is_asking = {}, {}, False

    def has_arrived(self, request: Request) -> bool:
        """Return False while a waiting request is still loading; otherwise count its loaded tokens and return True."""
        if self.is_loading(request):
            return False
        if request.status is RequestStatus.WAITING_FOR_REMOTE_KVS:
            self._finish_load(request)
        return True

    def look(self, request: Request) -> Look:
        """Look up a waiting request's tokens that are stored elsewhere; start the load if it takes several steps."""
        if request.num_computed_tokens or request.request_id in self._local_only:
            return Look.READY
        hit_blocks = self.kv.get_computed_blocks(request)
        num_hit_tokens = len(hit_blocks) * self.kv.block_size
        num_external, is_async = self.connector.get_num_new_matched_tokens(request, num_hit_tokens)
        if num_external is None:
            self.is_asking = True
            return Look.PASS_OVER
        if not (num_external and is_async):
            self.num_external_tokens[request.request_id] = num_external
            return Look.READY
        return self._start_load(request, hit_blocks, num_external)

    def _start_load(self, request: Request, hit_blocks: Sequence[int], num_external: int) -> Look:
        with self.commits.delayed():
            new_blocks = self.kv.allocate_slots(request, num_external, hit_blocks)
        if new_blocks is None:
            self.refused_load = hit_blocks, num_external
            return Look.STOP
        self._num_hit_tokens[request.request_id] = len(hit_blocks) * self.kv.block_size
        self.tell_allocated(request, num_external)
        request.wait_for_remote_kvs()
        if self.keeps_loads:
            request.keep_computed(self._num_hit_tokens[request.request_id] + num_external)
        return Look.PASS_OVER

    def _finish_load(self, request: Request) -> None:
        """Cache the loaded blocks before the first lost one. If no loaded blocks precede the lost one, the request
        starts again."""
        table = self.kv.block_ids(request.request_id)
        # The last token is always computed locally, because its logits give the next token.
        num_tokens = min(len(table) * self.kv.block_size, request.num_tokens - 1)
        if request.request_id in self._failed:
            num_tokens = request.num_computed_tokens
        if not num_tokens:
            self._drop_load(request)
            return
        num_hit_tokens = self._forget(request, num_tokens)
        num_cached_blocks, num_full_blocks = (n // self.kv.block_size for n in (num_hit_tokens, num_tokens))
        if num_full_blocks > num_cached_blocks:
            self.commits.cache_full_blocks(request, table, num_cached_blocks, num_full_blocks)
        request.become_ready(num_tokens)

    def _drop_load(self, request: Request) -> None:
        self.kv.free(request, self._forget(request, request.num_computed_tokens))
        request.become_ready()

    def tell_allocated(self, request: Request, num_external: int) -> None:
        """Pass a request's block table to the connector, which must load `num_external` tokens into it."""
        table = self.kv.block_ids(request.request_id)
        self.connector.update_state_after_alloc(request, table, num_external)
        if num_external:
            self.loading[request.request_id] = num_external

    def free_ended(self, request: Request, num_computed_tokens: int) -> None:
        """Free the blocks of an ended request, or hold them until `apply` receives a report that they were sent.

        Without `keeps_loads`, as in vLLM 0.13.0, the blocks of an aborted load may be reused immediately. The worker
        side must stop the load first.
        """
        is_loading = request.request_id in self._num_hit_tokens and request.request_id not in self._received
        num_kept = self._forget(request, num_computed_tokens)
        self._local_only.discard(request.request_id)
        self.commits.update_block_hashes(request)
        if is_loading and self.keeps_loads:
            self.connector.request_finished(request, self.kv.block_ids(request.request_id))
            self.sending[request.request_id] = request, num_kept
        elif self.connector.request_finished(request, self.kv.block_ids(request.request_id)):
            self.sending[request.request_id] = request, num_kept
        else:
            self.kv.free(request, num_kept)

    def free_preempted(self, request: Request, num_computed_tokens: int) -> None:
        """Free the blocks of a preempted request. The connector may save them before they are overwritten."""
        self.commits.update_block_hashes(request)
        self.connector.request_preempted(request, self.kv.block_ids(request.request_id), num_computed_tokens)
        self.kv.free(request, num_computed_tokens)

    def _forget(self, request: Request, num_computed_tokens: int) -> int:
        """Drop the state of an ended or aborted load; return how many tokens are computed without it."""
        self._received.discard(request.request_id)
        self._failed.discard(request.request_id)
        return self._num_hit_tokens.pop(request.request_id, num_computed_tokens)

    def lose(
        self, invalid_block_ids: frozenset[int], waiting: Iterable[Request], running: Iterable[Request]
    ) -> set[str]:
        """Shorten each request to the tokens before its first lost block; return the affected running requests.

        The sampled tokens of these requests are invalid. If several running requests share a lost block, vLLM 0.13.0
        lets only the first compute it and leaves it in the prefix cache meanwhile. In this engine each request computes
        the block, and the prefix cache does not return the block until it has been computed.
        """
        affected: set[str] = set()
        for request in (*waiting, *running):
            is_loading = request.status is RequestStatus.WAITING_FOR_REMOTE_KVS
            if not is_loading and request.status is not RequestStatus.RUNNING:
                continue
            table = self.kv.block_ids(request.request_id)
            lost = [index for index, block_id in enumerate(table) if block_id in invalid_block_ids]
            if not lost:
                continue
            num_tokens = lost[0] * self.kv.block_size
            if is_loading:
                self._failed.add(request.request_id)
                request.keep_computed(num_tokens)
            elif num_tokens < request.num_computed_tokens:
                affected.add(request.request_id)
                self.commits.drop_uncomputed(table[lost[0] :])
                request.keep_computed(num_tokens)
        return affected

    def apply(self, output: KVConnectorOutput) -> None:
        """Record which loads have arrived, and free the blocks that have been sent."""
        # Requests that are not loading anything are ignored: a report can arrive after an abort or a restart of the
        # engine.
        self._received.update(
            request_id for request_id in output.finished_recving if request_id in self._num_hit_tokens
        )
        for request_id in (*(output.finished_recving if self.keeps_loads else ()), *output.finished_sending):
            if request_id in self.sending:
                request, num_computed_tokens = self.sending.pop(request_id)
                self.kv.free(request, num_computed_tokens)

    def take_held(self) -> dict[str, list[int]]:
        """Free all ended requests' blocks that were not reported as sent; return the blocks keyed by request id."""
        held = {request_id: list(self.kv.block_ids(request_id)) for request_id in self.sending}
        self.apply(KVConnectorOutput(finished_sending=list(held)))
        return held

    def end_step(self, waiting: Sequence[Request], *, is_idle: bool, has_sampled: bool) -> None:
        """Break a stall in which vLLM 0.13.0 would wait forever.

        A request that has received its K and V can be queued after requests that need its blocks. Then every plan is
        empty, or the other requests are admitted and preempted in turn. If no transfer is in progress, the stall is
        broken once there have been `MAX_STEPS_IN_VAIN` empty steps since the last token. The last waiting request that
        holds blocks then loses them and computes its prompt locally.
        """
        holders = [request for request in waiting if self.kv.block_ids(request.request_id)]
        if has_sampled or not holders:
            self._num_steps_in_vain = 0
        elif is_idle and not self.sending and not any(self.is_loading(request) for request in waiting):
            self._num_steps_in_vain += 1
        if holders and self._num_steps_in_vain >= MAX_STEPS_IN_VAIN:
            self._local_only.add(holders[-1].request_id)
            self._drop_load(holders[-1])

    def is_loading(self, request: Request) -> bool:
        """Return whether some of the blocks that a request is loading have not arrived yet."""
        is_received = request.request_id in self._received
        return request.status is RequestStatus.WAITING_FOR_REMOTE_KVS and not is_received
