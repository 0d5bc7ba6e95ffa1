"""Do-nothing implementations of the seams: without a phase the engine still runs, but lacks that phase's feature."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence

from mini_vllm.core.interfaces import BlockPool, Clamp, KVCacheManager, RequestQueue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import KVConnectorOutput, SchedulerOutput


class SlotReservation:
    """Phase 2 absent: gives each token one slot; a request reserves its maximum on admission.

    The rest of the engine treats a slot as a block of one token, so the same runner works with both. Slot 0 stays
    unused, like block 0.
    """

    block_size = 1

    def __init__(self, num_slots: int, max_model_len: int) -> None:
        self.num_usable_blocks = num_slots
        self.max_model_len = max_model_len
        self._free_slots = deque(range(1, num_slots + 1))
        self._slots: dict[str, list[int]] = {}

    @property
    def num_free_blocks(self) -> int:
        return len(self._free_slots)

    def get_computed_blocks(self, request: Request) -> list[int]:
        return []

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        if request.request_id in self._slots:
            return []
        num_needed = request.max_total_tokens(self.max_model_len) - 1
        if num_needed > len(self._free_slots):
            return None
        slots = [self._free_slots.popleft() for _ in range(num_needed)]
        self._slots[request.request_id] = slots
        return slots

    def free(self, request: Request, num_computed_tokens: int) -> None:
        self._free_slots.extend(reversed(self._slots.pop(request.request_id, [])))

    def block_ids(self, request_id: str) -> list[int]:
        return self._slots.get(request_id, [])

    def free_block_ids(self) -> list[int]:
        return list(self._free_slots)

    def ref_counts(self) -> dict[int, int]:
        return {slot: 1 for slots in self._slots.values() for slot in slots}


class NoPreemption:
    """Phase 3 absent: preempts no request; a request that cannot get blocks skips this step."""

    def make_room(
        self,
        request: Request,
        num_new_tokens: int,
        running: list[Request],
        waiting: RequestQueue,
        scheduler_output: SchedulerOutput,
        kv: KVCacheManager,
    ) -> bool:
        return False


class NoPrefixCache:
    """Phase 4 absent, or prefix caching switched off: never finds a block."""

    def update_block_hashes(self, request: Request) -> None:
        return None

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        return []

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        return None

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        return None

    def evict(self, block_id: int) -> bool:
        return False

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        return None

    def cached_blocks(self) -> dict[int, bytes]:
        return {}

    def hit_rate(self) -> float:
        return 0.0


class WholePrompts:
    """Phase 5 absent: computes a prompt in one step, or makes it wait."""

    def __init__(self, clamp: Clamp) -> None:
        self.clamp = clamp

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        num_wanted = request.num_tokens - num_computed_tokens
        num_granted = self.clamp(num_wanted, token_budget, 0)
        # Once its prompt is computed, a running request may have drafts, and computing only some of them is still
        # useful.
        is_whole = num_granted == num_wanted or request.status is RequestStatus.RUNNING
        return num_granted if is_whole else 0

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        return True

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        return True


class NoGates:
    """Phases 9 to 11 absent: admits any waiting request and transfers no K and V."""

    passes_over = has_connector = awaits_others = False
    num_deferred = 0
    requests_being_sent: Sequence[str] = ()

    def take_errors(self) -> dict[str, str]:
        return {}

    def start_step(self) -> None:
        return None

    def end_plan(self, scheduler_output: SchedulerOutput, requests: Mapping[str, Request]) -> None:
        return None

    def break_stall(self, requests: Collection[Request]) -> bool:
        return False

    def advanced(self, scheduler_output: SchedulerOutput, requests: Mapping[str, Request]) -> None:
        return None

    def without_lost(
        self, sampled: dict[str, list[int]], output: KVConnectorOutput | None, running: Sequence[Request]
    ) -> dict[str, list[int]]:
        return sampled

    def end_step(self, output: KVConnectorOutput | None, *, is_idle: bool, has_sampled: bool) -> None:
        return None
