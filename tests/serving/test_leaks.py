"""Blocks that a learner's `free` forgets are named: in the error of the request that finds none, and in `/health`."""

from dataclasses import replace

import httpx

from mini_vllm.core.request import Request
from mini_vllm.engine.llm_engine import LLMEngine
from tests.serving.running import COMPLETION, FAKE, serving, wait_until


def leak(engine: LLMEngine) -> None:
    """Let `free` give up a request's blocks without freeing the last one, as a slip of one index does."""
    kv = engine.scheduler.kv
    whole = kv.free

    def free(request: Request, num_computed_tokens: int) -> None:
        lost = kv.block_ids(request.request_id)[-1:]
        whole(request, num_computed_tokens)
        for block_id in lost:
            kv.block_pool.free_queue.remove(kv.block_pool.blocks[block_id])  # type: ignore[attr-defined]

    kv.free = free  # type: ignore[method-assign]


def test_leaked_blocks_are_named() -> None:
    with serving(replace(FAKE, num_gpu_blocks=6, check_invariants=False, enable_prefix_caching=False)) as server:
        server.call(leak)
        health = f"{server.address}/health"
        assert httpx.get(health).json() == {"status": "ok"}
        assert server.post(COMPLETION, prompt="abc", max_tokens=2)[0] == 200
        wait_until(lambda: httpx.get(health).json()["status"] == "leaking", "the leak is seen")
        assert httpx.get(health).json()["message"].startswith("1 of 5 blocks have leaked")
        answers = [server.post(COMPLETION, prompt="abc", max_tokens=2) for _ in range(5)]
        assert [status for status, _ in answers] == [200] * 4 + [500]
        assert "5 of 5 blocks have leaked: no request holds them" in answers[-1][1]["message"]
        answer = httpx.get(health)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "blocks_leaked")
