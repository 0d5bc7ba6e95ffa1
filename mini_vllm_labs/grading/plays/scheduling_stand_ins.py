"""Provides stand-ins for phases 2, 3 and 5 around one scheduler step. The stand-ins follow a script and record each
call.

The case contains the stand-ins' decisions, so that none of them reveals its phase's solution.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.interfaces import KVCacheManager, RequestQueue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import Preempted, SchedulerOutput

MAX_CALLS = 2000  # otherwise, an endless loop would fill memory with recorded calls
NO_END = "this step never ends: your code has made {most:,} calls in it, the last one is {call}"


class CallLog(list[str]):
    """The calls of the code under test, in order. `amiss` collects violations, which are errors in every case.

    Raises `RuntimeError` in the code under test after `max_calls` calls.
    """

    def __init__(self, max_calls: int = MAX_CALLS) -> None:
        super().__init__()
        self.max_calls = max_calls
        self.amiss: list[str] = []

    def note(self, call: str) -> None:
        self.append(call)
        if len(self) > self.max_calls:
            raise RuntimeError(NO_END.format(most=self.max_calls, call=call))

    def with_effect(self) -> list[str]:
        """Return the calls that change state; the others may be repeated freely."""
        return [call for call in self if not call.startswith(("chunks.", "kv.get_computed_blocks"))]


class CountingMemory:
    """Replaces phase 2 and counts blocks. `hits` are the blocks that the prefix cache would find now.

    `hits_after` maps a request to the new hits that other requests have once that request has received its slots.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        log: CallLog,
        held: Mapping[str, int],
        hits_after: Mapping[str, Mapping[str, Sequence[int]]],
    ) -> None:
        self.block_size, self.log, self.num_held, self.hits_after = block_size, log, dict(held), hits_after
        self.num_usable_blocks = self.num_free_blocks = num_blocks
        self.hits: dict[str, Sequence[int]] = {}
        self.served: list[str] = []
        self.refused: list[str] = []

    def take(self, request: Request, num_new_tokens: int, num_hits: int = 0) -> int:
        """Allocate blocks even if too few are free; return their number."""
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
        name, options = request.request_id, f", hit_blocks={list(hit_blocks)}" if hit_blocks else ""
        options += f", num_lookahead_tokens={num_lookahead_tokens}" if num_lookahead_tokens else ""
        call = f"kv.allocate_slots({name}, {num_new_tokens}{options})"
        if request.status is RequestStatus.RUNNING and name in self.num_held:
            self.served.append(name)
        elif request.status is RequestStatus.RUNNING:
            self.log.amiss.append(f"{name} was RUNNING already when memory was asked for its admission")
        if self._num_needed(request, num_new_tokens, len(hit_blocks)) > max(self.num_free_blocks, 0):
            self.refused += [name] if request.status is RequestStatus.RUNNING else []
            self.log.note(f"{call} -> None")
            return None
        new_blocks = list(range(self.take(request, num_new_tokens, len(hit_blocks))))
        self.log.note(f"{call} -> {'[...]' if new_blocks else '[]'}")
        self.hits |= self.hits_after.get(name, {})
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
        return max(0, cdiv(num_tokens, self.block_size) - self.num_held.get(request.request_id, num_hits))


class ScriptedChunks:
    """Replaces phase 5: a script caps some requests, gives some all of their tokens or none, and never admits
    others."""

    def __init__(self, log: CallLog, kv: object, at_most: Mapping[str, int], all_or_none: Iterable[str]) -> None:
        self.log, self.kv, self.at_most, self.all_or_none = log, kv, at_most, frozenset(all_or_none)
        self.not_admitted: Sequence[str] = ()
        self.asked_with: dict[str, dict[str, list[Any]]] = {}

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        name, num_left = request.request_id, request.num_tokens + request.num_tokens_ahead - num_computed_tokens
        share = max(0, min(self.at_most.get(name, num_left), num_left, token_budget))
        share = 0 if name in self.all_or_none and share < num_left else share
        self.log.note(f"chunks.num_new_tokens({name}, {num_computed_tokens}, {token_budget}) -> {share}")
        return share

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        ids = [other.request_id for other in running]
        self.asked_with[request.request_id] = {"hits": [*hit_blocks], "RUNNING": ids}
        if kv is not self.kv:
            self.log.amiss.append("admits was given another object as `kv`")
        is_admitted = request.request_id not in self.not_admitted
        self.log.note(f"chunks.admits({request.request_id}) -> {is_admitted}")
        return is_admitted

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        return False  # steps do not call this


class ScriptedPreemption:
    """Replaces phase 3: the script names the victims for each request that gets no slots.

    Victims that are no longer running are skipped. `make_room` returns False if no victim is left or if the request
    itself is one of the victims. Otherwise the request then holds its slots.
    """

    def __init__(self, log: CallLog, victims: Mapping[str, Sequence[str]], running: object, waiting: object) -> None:
        self.log, self.victims = log, victims
        self.lists = {"running": running, "waiting": waiting}

    def make_room(
        self,
        request: Request,
        num_new_tokens: int,
        running: list[Request],
        waiting: RequestQueue,
        scheduler_output: SchedulerOutput,
        kv: CountingMemory,
    ) -> bool:
        for name, given in (("running", running), ("waiting", waiting)):
            if given is not self.lists[name]:
                self.log.amiss.append(f"make_room was given another object as `{name}`")
        names = self.victims.get(request.request_id, ())
        victims = [victim for name in names for victim in running if victim.request_id == name]
        if request in victims:
            victims = victims[: victims.index(request) + 1]
        for victim in victims:
            kv.num_free_blocks += kv.num_held.pop(victim.request_id, 0)
            running.remove(victim)
            victim.preempt()
            waiting.prepend_request(victim)
        planned = scheduler_output.num_scheduled_tokens
        returned = {victim.request_id: planned.pop(victim.request_id, 0) for victim in victims}
        scheduler_output.token_budget += sum(returned.values())
        scheduler_output.preempted += [Preempted(name, request.request_id, count) for name, count in returned.items()]
        makes_room = bool(victims) and request.status is RequestStatus.RUNNING
        if makes_room:
            kv.take(request, num_new_tokens)
        gone = " ".join(victim.request_id for victim in victims) or "none"
        self.log.note(
            f"preemption.make_room({request.request_id}, {num_new_tokens}) -> {makes_room} (preempted: {gone})"
        )
        return makes_room
