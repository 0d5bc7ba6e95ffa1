"""What the `<!-- check: ... -->` comments of the phase 10 handout may call."""

from functools import cache

from bench.swap import simulate
from mini_vllm import LLM, EngineConfig, SamplingParams
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import KVTransferConfig
from mini_vllm.core.request import Request
from solutions.phase10_kv_transfer import BlockStoreConnector, HostBlockStore


def bytes_of_a_block() -> int:
    """Return the bytes of a block of the embedded model, K and V of all layers."""
    return sum(cache[0].nbytes for cache in _engine().engine.runner.model.kv_caches)  # type: ignore[attr-defined]


@cache
def _engine() -> LLM:
    config = EngineConfig(num_gpu_blocks=40, kv_transfer_config=KVTransferConfig())
    return LLM(config=config, lineup=parse_lineup("solution:1-6,solution:10"))


def matched(num_tokens: int, num_computed_tokens: int, num_stored: int) -> int:
    """Return how many tokens a connector offers for a request whose first `num_stored` blocks of 16 are stored."""
    store, request = HostBlockStore(10**9), Request("A", list(range(num_tokens)))
    request.block_hashes = [bytes([number]) for number in range(num_tokens // 16)]
    import torch

    for block_hash in request.block_hashes[:num_stored]:
        store.put(block_hash, torch.zeros(1))
    return BlockStoreConnector(store, 16).get_num_new_matched_tokens(request, num_computed_tokens)[0] or 0


def cached_tokens_of_turns() -> list[int]:
    """Return the cached tokens of a prompt of 100 tokens, and of its answer of 30 and 10 more after others came."""
    llm, prompt = _engine(), list(range(10, 110))
    first = llm.generate([prompt], SamplingParams(30, 0.0, ignore_eos=True))[0]
    llm.generate([list(range(500, 1100))], SamplingParams(1))
    second = llm.generate([prompt + first.outputs[0].token_ids + list(range(10))], SamplingParams(1))[0]
    return [one.metrics.num_cached_tokens for one in (first, second)]


def milliseconds(gpu: str, length: int) -> list[int]:
    """Return what computing again and swapping add to a step."""
    return [round(1000 * one) for one in simulate(gpu, "Llama-3.1-8B").seconds[length]]


def kept(order: str, size: int) -> str:
    """Return which blocks stay of a chain abcd in a store of `size` blocks, put in this order."""
    import torch

    store = HostBlockStore(4 * size)
    for name in order:
        store.put(name.encode(), torch.zeros(1))
    return "".join(name for name in "abcd" if store.get(name.encode()) is not None)
