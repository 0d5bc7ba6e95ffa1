"""Proxies for the peer's phases 1, 3 and 5."""

from collections.abc import Iterator, Sequence
from typing import Any

from classroom.worker.encoding import Exported
from classroom.worker.proxy import Proxy
from mini_vllm.core.request import Request
from mini_vllm.core.step import SchedulerOutput


class RemoteRequestQueue(Proxy):
    """The peer's queue of waiting requests."""

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


class RemotePreemption(Proxy):
    """The peer's phase 3."""

    def make_room(
        self,
        request: Request,
        num_new_tokens: int,
        running: list[Request],
        waiting: Any,
        scheduler_output: SchedulerOutput,
        kv: Any,
    ) -> bool:
        queue, manager = Exported(waiting, "queue"), Exported(kv, "kv")
        return self.call("make_room", request, num_new_tokens, running, queue, scheduler_output, manager)  # type: ignore[no-any-return]


class RemoteChunkPolicy(Proxy):
    """The peer's phase 5."""

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        return self.call("num_new_tokens", request, num_computed_tokens, token_budget)  # type: ignore[no-any-return]

    def admits(self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: Any) -> bool:
        return self.call("admits", request, hit_blocks, running, Exported(kv, "kv"))  # type: ignore[no-any-return]

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        return self.call("should_sample", request, num_computed_tokens)  # type: ignore[no-any-return]


class RemoteClamp(Proxy):
    """The `clamp` of the peer's phase 1."""

    def __call__(self, num_new: int, budget: int, threshold: int) -> int:
        return self.call("__call__", num_new, budget, threshold)  # type: ignore[no-any-return]


class RemoteSchedulerStep(Proxy):
    """The three functions of the peer's phase 1."""

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
        scheduler_output: SchedulerOutput,
        sampled_token_ids: dict[str, list[int]],
        requests: dict[str, Request],
        running: list[Request],
        *,
        max_model_len: int,
        kv: Any,
    ) -> dict[str, list[int]]:
        return self.call(  # type: ignore[no-any-return]
            "update_from_output",
            *(scheduler_output, sampled_token_ids, requests, running),
            max_model_len=max_model_len,
            kv=Exported(kv, "kv"),
        )
