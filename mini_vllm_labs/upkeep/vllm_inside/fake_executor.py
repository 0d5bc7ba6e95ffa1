"""An executor without a model; it stores tokens as K and V, and thereby detects wrong and stale blocks."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import torch
from vllm.v1.executor.abstract import Executor
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.outputs import ModelRunnerOutput

VOCABULARY = 2_000
BLOCK_SIZE, NUM_BLOCKS = 16, 160


@dataclass
class Known:
    """The state that vLLM's worker keeps for one request between steps."""

    token_ids: list[int]
    block_ids: list[int]


class FakeExecutor(Executor):
    """Stores each computed token in its slot, reads the context by block table, and samples its checksum."""

    supported_tasks = ("generate",)

    def _init_executor(self) -> None:
        self.known: dict[str, Known] = {}
        self.slots: dict[int, int] = {}
        self.num_preempted = 0

    def get_kv_cache_specs(self) -> list[dict[str, Any]]:
        return [{"layer": FullAttentionSpec(BLOCK_SIZE, num_kv_heads=1, head_size=64, dtype=torch.float32)}]

    def determine_available_memory(self) -> list[int]:
        return [NUM_BLOCKS * self.get_kv_cache_specs()[0]["layer"].page_size_bytes]

    def initialize_from_config(self, kv_cache_configs: list[Any]) -> None:
        pass

    def collective_rpc(self, *_: Any, **__: Any) -> list[Any]:  # type: ignore[override]
        return [None]

    def check_health(self) -> None:
        pass

    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:
        done: Future[ModelRunnerOutput] = Future()
        done.set_result(self.computed(scheduler_output))
        return done if non_block else done.result()

    def computed(self, step: Any) -> ModelRunnerOutput:
        """Compute a step. Raises `RuntimeError` if a request's stored context differs from its tokens."""
        self.follow(step)
        names, sampled = list(step.num_scheduled_tokens), list[list[int]]()
        for name in names:
            one, start = self.known[name], self.starts[name]
            end = start + step.num_scheduled_tokens[name]
            for place in range(start, end):
                self.slots[self.slot(one, place)] = one.token_ids[place]
            context = [self.slots.get(self.slot(one, place), -1) for place in range(end)]
            if context != one.token_ids[:end]:
                wrong = next(place for place in range(end) if context[place] != one.token_ids[place])
                raise RuntimeError(f"{name}: the K and V of token {wrong} belong to a different token")
            if end < len(one.token_ids):
                sampled.append([])
                continue
            token = crc32(repr(context).encode()) % VOCABULARY
            one.token_ids.append(token)
            sampled.append([token])
        return ModelRunnerOutput(names, {name: place for place, name in enumerate(names)}, sampled, None, {}, [])

    def follow(self, step: Any) -> None:
        """Apply a step's changes to the known requests, as vLLM's model runner does."""
        self.num_preempted += len(step.preempted_req_ids)
        for name in step.finished_req_ids:
            self.known.pop(name, None)
        self.starts = {}
        for new in step.scheduled_new_reqs:
            self.known[new.req_id] = Known(list(new.prompt_token_ids), list(new.block_ids[0]))
            self.starts[new.req_id] = new.num_computed_tokens
        changes = step.scheduled_cached_reqs
        for name, blocks, start in zip(
            changes.req_ids, changes.new_block_ids, changes.num_computed_tokens, strict=True
        ):
            one, self.starts[name] = self.known[name], start
            if name in changes.resumed_req_ids:
                one.block_ids = []
                one.token_ids = list(changes.all_token_ids[name])
            one.block_ids += blocks[0] if blocks else []

    def slot(self, one: Known, place: int) -> int:
        return one.block_ids[place // BLOCK_SIZE] * BLOCK_SIZE + place % BLOCK_SIZE
