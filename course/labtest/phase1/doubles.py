"""Doubles of phases 2, 3 and 5 for the tests of phase 1. Nothing here is to be filled in.

Each does the minimum that its interface promises and logs every call.
"""

from collections.abc import Iterable, Mapping, Sequence

import pytest

from mini_vllm.core.interfaces import Clamp, KVCacheManager, RequestQueue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import Preempted, SchedulerOutput

MAX_CALLS = 2000  # a loop that never ends calls its doubles for ever, and would fill memory first


class CallLog(list[str]):
    """The calls of the code under test, in order. Fails a test whose calls do not come to an end."""

    def __init__(self, before: Sequence[str] = (), max_calls: int = MAX_CALLS) -> None:
        super().__init__()
        self.before = before
        self.max_calls = max_calls

    def note(self, call: str) -> None:
        self.append(call)
        if len(self) > self.max_calls:
            before = "".join(f"  {line}\n" for line in self.before)
            last = "\n".join(f"    {call}" for call in self[-4:])
            pytest.fail(
                "A step comes to an end: each round of its loops serves, admits, skips or stops.\n\n"
                f"{before}\n  your code made {self.max_calls} calls for these requests; the last ones:\n{last}\n"
                "Hint: which line of your loop makes progress when a request gets nothing?",
                pytrace=False,
            )

    def with_effect(self) -> list[str]:
        """Return the calls that change something; the others may be made any number of times."""
        return [call for call in self if not call.startswith(("chunks.", "kv.get_computed_blocks"))]


class BlockCountingKV:
    """A KV memory that only counts blocks. `hits` are the blocks that the prefix cache would find now.

    `hits_after` has what it finds of some requests once a certain one has got its slots.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        log: CallLog,
        hits: Mapping[str, Sequence[int]] | None = None,
        hits_after: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
    ) -> None:
        self.block_size = block_size
        self.num_usable_blocks = num_blocks
        self.num_free_blocks = num_blocks
        self.log = log
        self.hits = dict(hits or {})
        self.hits_after = hits_after or {}
        self.num_held: dict[str, int] = {}
        self.admitted_early: list[str] = []
        self.served: list[str] = []

    def __repr__(self) -> str:
        return "the KV memory"

    def hold(self, requests: Iterable[Request]) -> None:
        """Give running requests the blocks of their computed tokens."""
        for request in requests:
            self.take(request, 0)

    def take(self, request: Request, num_new_tokens: int, num_hits: int = 0) -> int:
        """Hand out blocks, even if too few are free; return how many."""
        num_needed = self._num_needed(request, num_new_tokens, num_hits)
        self.num_held[request.request_id] = self.num_held.get(request.request_id, num_hits) + num_needed
        self.num_free_blocks -= num_needed
        return num_needed

    def get_computed_blocks(self, request: Request) -> list[int]:
        self.log.note(f"kv.get_computed_blocks({request.request_id})")
        return list(self.hits.get(request.request_id, ()))

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        options = f", hit_blocks={list(hit_blocks)}" if hit_blocks else ""
        options += f", num_lookahead_tokens={num_lookahead_tokens}" if num_lookahead_tokens else ""
        call = f"kv.allocate_slots({request.request_id}, {num_new_tokens}{options})"
        if request.status is RequestStatus.RUNNING:
            is_held = request.request_id in self.num_held
            (self.served if is_held else self.admitted_early).append(request.request_id)
        if self._num_needed(request, num_new_tokens, len(hit_blocks)) > max(self.num_free_blocks, 0):
            self.log.note(f"{call} -> None")
            return None
        new_blocks = list(range(self.take(request, num_new_tokens, len(hit_blocks))))
        self.log.note(f"{call} -> {'[...]' if new_blocks else '[]'}")
        self.hits |= self.hits_after.get(request.request_id, {})
        return new_blocks

    def free(self, request: Request, num_computed_tokens: int) -> None:
        computed = request.num_computed_tokens
        wrong = "" if num_computed_tokens == computed else f" with {num_computed_tokens} of {computed} computed tokens"
        self.log.note(f"kv.free({request.request_id}{wrong})")
        self.num_free_blocks += self.num_held.pop(request.request_id, 0)

    def block_ids(self, request_id: str) -> list[int]:
        return list(range(self.num_held.get(request_id, 0)))

    def free_block_ids(self) -> list[int]:
        return list(range(self.num_free_blocks))

    def ref_counts(self) -> dict[int, int]:
        return {}

    def _num_needed(self, request: Request, num_new_tokens: int, num_hits: int) -> int:
        num_tokens = request.num_computed_tokens + num_hits * self.block_size + num_new_tokens
        return max(0, -(-num_tokens // self.block_size) - self.num_held.get(request.request_id, num_hits))


class ScriptedChunks:
    """A chunk policy: the learner's `clamp` or a given one; some requests get 0 tokens, some are not admitted."""

    def __init__(
        self,
        log: CallLog,
        threshold: int = 0,
        not_now: Iterable[str] = (),
        not_admitted: Iterable[str] = (),
        clamp: Clamp | None = None,
        whole_or_not: Iterable[str] = (),
    ) -> None:
        self.log = log
        self.threshold = threshold
        self.not_now = frozenset(not_now)
        self.not_admitted = frozenset(not_admitted)
        self.whole_or_not = frozenset(whole_or_not)
        self.clamp = clamp
        self.asked_with: dict[str, dict[str, object]] = {}
        self.wrong_clamp = ""

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        num_uncomputed = request.num_tokens + request.num_tokens_ahead - num_computed_tokens
        num_granted = right = max(0, min(num_uncomputed, token_budget, self.threshold or num_uncomputed))
        if request.request_id in self.not_now:
            num_granted = 0
        elif self.clamp is not None:
            num_granted = self.clamp(num_uncomputed, token_budget, self.threshold)
            if num_granted != right:
                self.wrong_clamp = f"clamp({num_uncomputed}, {token_budget}, {self.threshold}) -> {num_granted}"
        if request.request_id in self.whole_or_not and num_granted < num_uncomputed:
            num_granted = 0
        self.log.note(
            f"chunks.num_new_tokens({request.request_id}, {num_computed_tokens}, {token_budget}) -> {num_granted}"
        )
        return num_granted

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        self.asked_with[request.request_id] = {
            "hit_blocks": hit_blocks if hit_blocks is None else list(hit_blocks),
            "running": running if running is None else [other.request_id for other in running],
            "kv": kv,
        }
        admitted = request.request_id not in self.not_admitted
        self.log.note(f"chunks.admits({request.request_id}) -> {admitted}")
        return admitted

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        return True


class ScriptedPreemption:
    """A preemption that follows a script: for each request that is refused, which requests are preempted.

    Victims that are not running any more are skipped. `make_room` returns False if no victim is left or if the
    request itself is one of them. Otherwise the request holds its slots.
    """

    def __init__(self, log: CallLog, script: Mapping[str, Sequence[str]] | None = None) -> None:
        self.log = log
        self.script = dict(script or {})
        self.lists: tuple[object, object] | None = None
        self.wrong_lists: list[str] = []
        self.asked_for: list[str] = []

    def make_room(
        self,
        request: Request,
        num_new_tokens: int,
        running: list[Request],
        waiting: RequestQueue,
        scheduler_output: SchedulerOutput,
        kv: BlockCountingKV,
    ) -> bool:
        self.asked_for.append(request.request_id)
        if self.lists is not None:
            given = zip(("running", "waiting"), (running, waiting), self.lists, strict=True)
            self.wrong_lists += [name for name, one, own in given if one is not own]
        names = self.script.get(request.request_id, ())
        victims = [victim for name in names for victim in running if victim.request_id == name]
        if request in victims:
            victims = victims[: victims.index(request) + 1]
        for victim in victims:
            self._evict(victim, request, running, waiting, scheduler_output, kv)
        makes_room = bool(victims) and request.status is RequestStatus.RUNNING
        if makes_room:
            kv.take(request, num_new_tokens)
        evicted = " ".join(victim.request_id for victim in victims) or "none"
        self.log.note(
            f"preemption.make_room({request.request_id}, {num_new_tokens}) -> {makes_room} (preempted: {evicted})"
        )
        return makes_room

    def _evict(
        self,
        victim: Request,
        cause: Request,
        running: list[Request],
        waiting: RequestQueue,
        scheduler_output: SchedulerOutput,
        kv: BlockCountingKV,
    ) -> None:
        kv.num_free_blocks += kv.num_held.pop(victim.request_id, 0)
        running.remove(victim)
        victim.preempt()
        waiting.prepend_request(victim)
        num_returned = scheduler_output.num_scheduled_tokens.pop(victim.request_id, 0)
        scheduler_output.token_budget += num_returned
        scheduler_output.preempted.append(Preempted(victim.request_id, cause.request_id, num_returned))
