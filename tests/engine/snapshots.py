"""An engine's whole state as plain values, for comparing before and after, and the contents of its KV cache."""

from collections.abc import Callable
from typing import Any

from mini_vllm.core.invariants import require
from mini_vllm.core.request import Request
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.trace_recorder import TraceRecorder
from mini_vllm.runner.fake_model_runner import FakeModelRunner


def snapshot(engine: LLMEngine) -> dict[str, Any]:
    """Return a deep copy of all state that a refused request must not change."""
    scheduler, kv = engine.scheduler, engine.scheduler.kv
    return {
        "running": [request.request_id for request in scheduler.running],
        "waiting": [request.request_id for request in scheduler.waiting],
        "requests": {request_id: _request(request) for request_id, request in scheduler.requests.items()},
        "finished": set(scheduler.finished_req_ids),
        "tables": {request_id: list(kv.block_ids(request_id)) for request_id in scheduler.requests},
        "free": list(kv.free_block_ids()),
        "ref_counts": dict(kv.ref_counts()),
        "cached": dict(scheduler.prefix_cache.cached_blocks()),
        "hit_rate": scheduler.prefix_cache.hit_rate(),
        "texts": {request_id: state.detokenizer.text for request_id, state in engine.processor.states.items()},
        "recorded": sum(len(o.steps) for o in engine.observers if isinstance(o, TraceRecorder)),
    }


def _request(request: Request) -> tuple[Any, ...]:
    return (
        request.status,
        tuple(request.all_token_ids),
        request.num_computed_tokens,
        request.num_cached_tokens,
        request.num_preemptions,
        request.stop_reason,
        tuple(request.block_hashes),
        request.sampling_params,
    )


class MemoryCheck:
    """Compares the fake model's slots with the tokens that the engine counts as computed."""

    def __init__(self, engine: LLMEngine, runner: FakeModelRunner) -> None:
        self.engine = engine
        self.runner = runner
        self.tokens_of_hash: dict[bytes, list[int]] = {}
        self._requests: set[Request] = set()
        scheduler: Any = engine.scheduler
        scheduler.update_from_output = self._noting(scheduler.update_from_output)

    def note_hashes(self) -> None:
        """Remember the tokens of each block hash, even for requests that have since ended."""
        size = self.runner.block_size
        self._requests |= set(self.engine.scheduler.requests.values())
        for request in self._requests:
            for index, block_hash in enumerate(request.block_hashes):
                tokens = request.all_token_ids[index * size : (index + 1) * size]
                if len(tokens) == size:  # a stop string may since have cut off the last tokens
                    self.tokens_of_hash[block_hash] = tokens

    def _noting(self, update: Callable[..., dict[str, list[int]]]) -> Callable[..., dict[str, list[int]]]:
        def update_and_note(*arguments: Any) -> dict[str, list[int]]:
            self._requests |= set(self.engine.scheduler.requests.values())
            kept = update(*arguments)
            self.note_hashes()
            return kept

        return update_and_note

    def check(self) -> None:
        """Raise `InvariantError` if a computed token or a cached block is not in its slots."""
        scheduler = self.engine.scheduler
        for request in scheduler.running:
            held = [t for block_id in scheduler.kv.block_ids(request.request_id) for t in self._slots(block_id)]
            computed = request.all_token_ids[: request.num_computed_tokens]
            require(held[: len(computed)] == computed, f"{request.request_id}: {computed} computed, memory has {held}")
        for block_id, block_hash in scheduler.prefix_cache.cached_blocks().items():
            known, held = self.tokens_of_hash.get(block_hash), self._slots(block_id)
            require(held == known, f"block {block_id} is cached as {known}, memory has {held}")

    def _slots(self, block_id: int) -> list[int]:
        size = self.runner.block_size
        return list(self.runner.slots[block_id * size : (block_id + 1) * size])
