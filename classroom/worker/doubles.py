"""Stand-ins for the phases that a learner's code calls. They are no secret.

They keep the contracts of `mini_vllm/core/interfaces.py` and decide differently from vLLM on purpose, so that none of
them answers what another phase is asked: other blocks, other victims, other shares.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.interfaces import KVCacheManager, RequestQueue
from mini_vllm.core.request import Request
from mini_vllm.core.step import Preempted, SchedulerOutput

MAX_HIT_BLOCKS = 2


def drawn(request: Request, step: int) -> int:
    return crc32(f"{request.request_id}/{step}".encode())


@dataclass
class Memory:
    """For phase 2: hands out the most recently freed block, and finds at most some blocks of a prefix, mostly two."""

    block_size: int
    free_blocks: list[int]
    tables: dict[str, list[int]] = field(default_factory=dict)
    known: dict[tuple[int, ...], int] = field(default_factory=dict)
    freed: list[tuple[str, int]] = field(default_factory=list)
    max_hit_blocks: int = MAX_HIT_BLOCKS

    @property
    def num_usable_blocks(self) -> int:
        return len(self.free_blocks) + len(self.ref_counts())

    @property
    def num_free_blocks(self) -> int:
        return len(self.free_blocks)

    def get_computed_blocks(self, request: Request) -> list[int]:
        hits: list[int] = []
        for prefix in self._prefixes(request):
            if prefix not in self.known or len(prefix) >= request.num_tokens:
                break
            hits.append(self.known[prefix])
        return hits

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        table = self.tables.get(request.request_id, list(hit_blocks))
        end = request.num_computed_tokens + len(hit_blocks) * self.block_size + num_new_tokens
        num_more = max(0, cdiv(end + num_lookahead_tokens, self.block_size) - len(table))
        left = [block_id for block_id in self.free_blocks if block_id not in hit_blocks]
        if num_more > len(left):
            return None
        self.free_blocks = left
        taken = [self.free_blocks.pop() for _ in range(num_more)]
        self.tables[request.request_id] = table = [*table, *taken]
        self.known = {prefix: block_id for prefix, block_id in self.known.items() if block_id not in taken}
        for index, prefix in enumerate(self._prefixes(request)):
            if len(prefix) <= end:
                self.known[prefix] = table[index]
        return taken

    def free(self, request: Request, num_computed_tokens: int) -> None:
        self.freed.append((request.request_id, num_computed_tokens))
        table = self.tables.pop(request.request_id, [])
        self.free_blocks += [block_id for block_id in table if block_id not in self.ref_counts()]

    def block_ids(self, request_id: str) -> list[int]:
        return self.tables.get(request_id, [])

    def free_block_ids(self) -> list[int]:
        return list(self.free_blocks)

    def ref_counts(self) -> dict[int, int]:
        return dict(Counter(block_id for table in self.tables.values() for block_id in table))

    def state(self) -> dict[str, Any]:
        """Return what a call may have changed."""
        tables = {name: len(table) for name, table in sorted(self.tables.items())}
        return {"blocks held": tables, "free": len(self.free_blocks), "freed": self.freed}

    def _prefixes(self, request: Request) -> list[tuple[int, ...]]:
        tokens, size = request.all_token_ids, self.block_size
        num_full = min(self.max_hit_blocks, len(tokens) // size)
        return [tuple(tokens[: number * size]) for number in range(1, num_full + 1)]


@dataclass
class LoggedMemory(Memory):
    """The same, and records which slots it was asked for: phase 1 asks once for each, with the hits in order."""

    asked: list[tuple[str, int, list[int]]] = field(default_factory=list)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        self.asked.append((request.request_id, num_new_tokens, [*hit_blocks, num_lookahead_tokens]))
        return super().allocate_slots(request, num_new_tokens, hit_blocks, num_lookahead_tokens)

    def state(self) -> dict[str, Any]:
        """Return what a call may have changed, and the slots it asked for."""
        return {**super().state(), "slots asked for": self.asked}


class ReservedMemory(Memory):
    """The same, full until a request was freed; from then on the last blocks of all others have room."""

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        return [] if self.freed else None


@dataclass
class ReadMemory(Memory):
    """The same, but gives out its own counts of holders and shows them: phase 5 only reads."""

    counts: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.counts = super().ref_counts()

    def ref_counts(self) -> dict[int, int]:
        return self.counts

    def state(self) -> dict[str, Any]:
        """Return what a call may have changed, and the number of holders of each block."""
        return {**super().state(), "holders": self.counts}


@dataclass
class AnyVictim:
    """For phase 3: preempts any request except the one asking, and puts it last in line; or refuses."""

    step: int = 0

    def make_room(
        self,
        request: Request,
        num_new_tokens: int,
        running: list[Request],
        waiting: RequestQueue,
        scheduler_output: SchedulerOutput,
        kv: KVCacheManager,
    ) -> bool:
        kind = drawn(request, self.step) % 6
        if self.step % 4 == 0 or kind == 0:
            return False  # and the request still runs, as phase 3's contract allows
        place = (0, 0, 1, 1, -1)[kind - 1]  # of the request itself among the victims: anywhere, last, first
        for victim in sorted(running, key=lambda other: (place * (other is request), drawn(other, 0))):
            kv.free(victim, 0)
            running.remove(victim)
            victim.preempt()
            waiting.add_request(victim)
            num_returned = scheduler_output.num_scheduled_tokens.pop(victim.request_id, 0)
            scheduler_output.token_budget += num_returned
            scheduler_output.preempted.append(Preempted(victim.request_id, victim.request_id, num_returned))
            if victim is request:
                return False
            if kv.allocate_slots(request, num_new_tokens) is not None:
                return True
        return False


@dataclass
class AnyShare:
    """For phase 5: shares and admission depend on the request and the step; samples are taken a token too early.

    With `is_generous` all waiting requests are admitted, and a share leaves out no more than the last token.
    Some requests get all their tokens or none.
    """

    step: int = 0
    is_generous: bool = False

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        num_left = request.num_tokens + request.num_tokens_ahead - num_computed_tokens
        if drawn(request, self.step) % 5 == 0 and token_budget < num_left:
            return 0
        share = num_left - (num_left > 2) if self.is_generous else drawn(request, self.step) % 9
        return max(0, min(share, token_budget, num_left))

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        return self.is_generous or drawn(request, self.step + 1) % 6 > 0

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        return num_computed_tokens + 2 > request.num_tokens


@dataclass(frozen=True)
class ClampTable:
    """For phase 1's `clamp`: the judge's answers, looked up. It comes with a question of phase 5 and knows no rule.

    With a `scale` it is for its multiples.
    """

    size: int
    answers: bytes
    scale: int = 1

    def __call__(self, num_new: int, budget: int, threshold: int) -> int:
        place = 0
        for number in (num_new, budget, threshold):
            place = place * self.size + int(max(0, min(number // self.scale, self.size - 1)))
        return self.answers[place] * self.scale
