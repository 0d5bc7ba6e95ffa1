"""Functions for the `<!-- check: ... -->` comments in the phase 10 handout."""

from functools import cache

import torch

from mini_vllm import LLM, EngineConfig, SamplingParams
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import KVTransferConfig
from mini_vllm_labs.bench.swap import simulate
from solutions.phase10_kv_transfer import HostBlockStore


@cache
def engine() -> LLM:
    config = EngineConfig(num_gpu_blocks=12, kv_transfer_config=KVTransferConfig())
    return LLM(config=config, lineup=parse_lineup("solution:1-6,solution:10"))


def bytes_of_a_block() -> int:
    """Return the size in bytes of one block of the embedded model, with the K and V of all layers."""
    return sum(cache[0].nbytes for cache in engine().engine.runner.model.kv_caches)  # type: ignore[attr-defined]


def loaded(num_prompt_tokens: int, num_new_tokens: int, num_output_tokens: int = 1) -> int:
    """Return how many tokens a second turn with `num_new_tokens` more tokens finds cached after all blocks were
    overwritten."""
    prompt = list(range(10, 10 + num_prompt_tokens))
    params = [SamplingParams(length, 0.0, ignore_eos=True) for length in (num_output_tokens, 1)]
    first = engine().generate([prompt], params[:1])[0]
    engine().generate([[num_prompt_tokens] * 170], params[1:])
    turn = prompt + (first.outputs[0].token_ids + list(range(num_new_tokens)) if num_new_tokens else [])
    return engine().generate([turn], params[1:])[0].metrics.num_cached_tokens


def milliseconds(gpu: str, length: int) -> list[int]:
    """Return how much time recomputing and swapping each add to a step."""
    return [round(1000 * one) for one in simulate(gpu, "Llama-3.1-8B")[length]]


def kept(order: str, size: int) -> str:
    """Return which blocks of a chain abcd remain in a store of `size` blocks if stored in this order."""
    store = HostBlockStore(4 * size)
    for name in order:
        store.put(name.encode(), torch.zeros(1))
    return "".join(name for name in "abcd" if store.get(name.encode()) is not None)
