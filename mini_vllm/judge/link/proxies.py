"""Stand-ins for the parts on the other end: each method is a message there and its answer back."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mini_vllm.judge.link.values import Exported
from mini_vllm.request import Request
from mini_vllm.step import SchedulerOutput

Ask = Callable[..., Any]


class Proxy:
    """What is on the other end under a number."""

    def __init__(self, ask: Ask, number: int) -> None:
        self._ask = ask
        self.number = number

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method there, or read a property."""
        return self._ask(self.number, method, *arguments, **named)


class RemoteKVCacheManager(Proxy):
    """Phase 2 on the other end."""

    @property
    def block_size(self) -> int:
        return self.call("block_size")  # type: ignore[no-any-return]

    @property
    def num_usable_blocks(self) -> int:
        return self.call("num_usable_blocks")  # type: ignore[no-any-return]

    @property
    def num_free_blocks(self) -> int:
        return self.call("num_free_blocks")  # type: ignore[no-any-return]

    @property
    def usage(self) -> float:
        return self.call("usage")  # type: ignore[no-any-return]

    def get_computed_blocks(self, request: Request) -> list[int]:
        return self.call("get_computed_blocks", request)  # type: ignore[no-any-return]

    def allocate_slots(
        self,
        request: Request,
        num_new_tokens: int,
        hit_blocks: Sequence[int] = (),
        num_lookahead_tokens: int = 0,
    ) -> list[int] | None:
        return self.call("allocate_slots", request, num_new_tokens, hit_blocks, num_lookahead_tokens)  # type: ignore[no-any-return]

    def free(self, request: Request) -> None:
        self.call("free", request)

    def block_ids(self, request_id: str) -> list[int]:
        return self.call("block_ids", request_id)  # type: ignore[no-any-return]

    def free_block_ids(self) -> list[int]:
        return self.call("free_block_ids")  # type: ignore[no-any-return]

    def ref_counts(self) -> dict[int, int]:
        return self.call("ref_counts")  # type: ignore[no-any-return]


class RemoteRequestQueue(Proxy):
    """The waiting requests on the other end."""

    def add_request(self, request: Request) -> None:
        self.call("add_request", request)

    def prepend_request(self, request: Request) -> None:
        self.call("prepend_request", request)

    def peek_request(self) -> Request:
        return self.call("peek_request")  # type: ignore[no-any-return]

    def pop_request(self) -> Request:
        return self.call("pop_request")  # type: ignore[no-any-return]

    def remove_request(self, request: Request) -> None:
        self.call("remove_request", request)

    def __len__(self) -> int:
        return self.call("__len__")  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Request]:
        return iter(self.call("__iter__"))


class RemotePool(Proxy):
    """The part of phase 2 that phase 4 uses, on the other end."""

    def touch(self, block_id: int) -> None:
        self.call("touch", block_id)


class RemotePreemption(Proxy):
    """Phase 3 on the other end."""

    def make_room(
        self,
        request: Request,
        num_new_tokens: int,
        running: list[Request],
        waiting: Any,
        step: SchedulerOutput,
        kv: Any,
    ) -> bool:
        queue, manager = Exported(waiting, "queue"), Exported(kv, "kv")
        return self.call("make_room", request, num_new_tokens, running, queue, step, manager)  # type: ignore[no-any-return]


class RemotePrefixCache(Proxy):
    """Phase 4 on the other end."""

    def update_block_hashes(self, request: Request) -> None:
        self.call("update_block_hashes", request)

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        return self.call("find_longest_cache_hit", request)  # type: ignore[no-any-return]

    def adopt(self, request: Request, block_ids: Sequence[int], pool: Any) -> None:
        self.call("adopt", request, block_ids, Exported(pool, "pool"))

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        self.call("cache_full_blocks", request, block_ids, num_cached_blocks, num_full_blocks)

    def evict(self, block_id: int) -> bool:
        return self.call("evict", block_id)  # type: ignore[no-any-return]

    def uncache(self, block_ids: Sequence[int]) -> None:
        self.call("uncache", block_ids)

    def cached_blocks(self) -> dict[int, bytes]:
        return self.call("cached_blocks")  # type: ignore[no-any-return]

    def hit_rate(self) -> float:
        return self.call("hit_rate")  # type: ignore[no-any-return]


class RemoteChunkPolicy(Proxy):
    """Phase 5 on the other end."""

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        return self.call("num_new_tokens", request, num_computed_tokens, token_budget)  # type: ignore[no-any-return]

    def admits(self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: Any) -> bool:
        return self.call("admits", request, hit_blocks, running, Exported(kv, "kv"))  # type: ignore[no-any-return]

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        return self.call("should_sample", request, num_computed_tokens)  # type: ignore[no-any-return]


class RemoteClamp(Proxy):
    """Phase 1's `clamp` on the other end."""

    def __call__(self, num_new: int, budget: int, threshold: int) -> int:
        return self.call("__call__", num_new, budget, threshold)  # type: ignore[no-any-return]


class RemoteSchedulerStep(Proxy):
    """Phase 1's three functions on the other end."""

    def clamp(self, num_new: int, budget: int, threshold: int) -> int:
        return self.call("clamp", num_new, budget, threshold)  # type: ignore[no-any-return]

    def schedule_step(
        self,
        running: list[Request],
        waiting: Any,
        *,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        kv: Any,
        preemption: Any,
        chunks: Any,
    ) -> SchedulerOutput:
        return self.call(  # type: ignore[no-any-return]
            "schedule_step",
            running,
            Exported(waiting, "queue"),
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max_num_batched_tokens,
            kv=Exported(kv, "kv"),
            preemption=Exported(preemption, "preemption"),
            chunks=Exported(chunks, "chunks"),
        )

    def update_from_output(
        self,
        step: SchedulerOutput,
        sampled_token_ids: dict[str, list[int]],
        requests: dict[str, Request],
        running: list[Request],
        *,
        max_model_len: int,
        kv: Any,
    ) -> dict[str, list[int]]:
        return self.call(  # type: ignore[no-any-return]
            "update_from_output",
            *(step, sampled_token_ids, requests, running),
            max_model_len=max_model_len,
            kv=Exported(kv, "kv"),
        )


class RemoteFile(Proxy):
    """The learner's file on the other end: see `inside.LearnersFile`."""


PROXIES: dict[str, type[Proxy]] = {
    "kv": RemoteKVCacheManager,
    "queue": RemoteRequestQueue,
    "pool": RemotePool,
    "preemption": RemotePreemption,
    "prefix cache": RemotePrefixCache,
    "chunks": RemoteChunkPolicy,
    "clamp": RemoteClamp,
    "scheduler step": RemoteSchedulerStep,
    "file": RemoteFile,
}
FILE_METHODS = frozenset({"load", "make", "drive"})


def methods(kind: str) -> frozenset[str]:
    """Return what the other end may ask of a thing of this kind."""
    if kind == "file":
        return FILE_METHODS
    return frozenset(name for name in vars(PROXIES[kind]) if name not in ("__module__", "__doc__"))
