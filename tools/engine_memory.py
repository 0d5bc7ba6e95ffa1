"""`python -m tools.engine_memory`: the memory of a server's engine over many short requests, an hour in minutes.

Texts, lengths and batch sizes vary, as they do with real clients. The last line says by how much the memory grew after
the first quarter of the requests, when every buffer has its size.
"""

import argparse
import asyncio
import random
import time

import psutil

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import EngineConfig
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.engine_process import EngineProcess
from mini_vllm.sampling_params import SamplingParams
from serving.cli.engine_spec import EngineSpec
from serving.live.recent_steps import keep_recent_steps
from serving.metrics import keep_statistics

ROUNDS, MAX_AT_ONCE = 16, 64
WORDS = "Mina Ben Lily kite drum map boat hat bell red blue tell me a story about the and with once upon time".split()


async def main() -> None:
    """Ask in rounds, and print the memory after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=16_000)
    num_requests = parser.parse_args().requests
    llm = AsyncLLM(EngineSpec(EngineConfig(), parse_lineup("solution")).open)
    await llm.call(keep_recent_steps)
    await llm.call(keep_statistics)
    assert isinstance(llm._host, EngineProcess)
    process, began, sizes = psutil.Process(llm._host._process.pid), time.monotonic(), list[int]()
    rng, places = random.Random(0), asyncio.Semaphore(MAX_AT_ONCE)

    async def ask(name: str) -> None:
        async with places:
            prompt = " ".join(rng.choices(WORDS, k=rng.randint(3, 40)))
            async for _ in llm.generate(prompt, SamplingParams(rng.randint(1, 12), temperature=0.8), name):
                pass

    print(f"before: {process.memory_info().rss / 1e6:,.0f} MB")
    for number in range(1, ROUNDS + 1):
        await asyncio.gather(*(ask(f"{number}-{place}") for place in range(num_requests // ROUNDS)))
        sizes.append(process.memory_info().rss)
        since = f"{time.monotonic() - began:5.0f} s"
        print(f"{number * num_requests // ROUNDS:>7,} requests, {since}: {sizes[-1] / 1e6:,.0f} MB", flush=True)
    grown = sizes[-1] - sizes[ROUNDS // 4 - 1]
    print(f"growth after the first quarter: {grown / 1e6:,.0f} MB ({grown / sizes[ROUNDS // 4 - 1]:.1%})")
    await llm.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
