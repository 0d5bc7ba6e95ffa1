"""One HTTP request may ask for several texts, and each of them is a request of the engine."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.outputs import RequestOutput
from mini_vllm.sampling_params import SamplingParams

Item = tuple[int, RequestOutput]
"""A choice and an output of it."""
Outputs = AsyncGenerator[Item, None]


@dataclass(frozen=True, slots=True)
class Choice:
    """One text to generate."""

    prompt_token_ids: list[int]
    sampling_params: SamplingParams


def choices_of(prompt_token_ids: list[int], params: SamplingParams, n: int) -> list[Choice]:
    """Return n choices for a prompt. If there is a seed, each has its own.

    vLLM: `ParentRequest` of `v1/engine/parallel_sampling.py`.
    """
    seeds = [None if params.seed is None else params.seed + index for index in range(n)]
    return [Choice(prompt_token_ids, replace(params, seed=seed)) for seed in seeds]


async def generate_all(
    llm: AsyncLLM,
    choices: Sequence[Choice],
    request_id: str,
    *,
    priority: int,
    cache_salt: str | None,
    timeout: float | None,
) -> Outputs:
    """Yield the outputs of all choices as they come, each with the number of its choice. Raises as `generate` does.

    If one choice cannot be served, or the reader leaves early, the others are aborted.
    """
    streams = [
        llm.generate(
            choice.prompt_token_ids,
            choice.sampling_params,
            f"{request_id}-{index}",
            priority=priority,
            cache_salt=cache_salt,
            timeout=timeout,
        )
        for index, choice in enumerate(choices)
    ]
    if len(streams) > 1:
        async with aclosing(_merged(streams)) as merged:
            async for item in merged:
                yield item
    else:
        async with aclosing(streams[0]) as outputs:
            async for output in outputs:
                yield 0, output


async def _merged(streams: Sequence[AsyncGenerator[RequestOutput, None]]) -> Outputs:
    """Yield what several streams yield. None is read further than the reader of all has come."""
    items = asyncio.Queue[Item | Exception](maxsize=1)

    async def read(index: int, stream: AsyncGenerator[RequestOutput, None]) -> None:
        try:
            async with aclosing(stream):
                async for output in stream:
                    await items.put((index, output))
        except Exception as error:
            await items.put(error)

    readers = [asyncio.create_task(read(index, stream)) for index, stream in enumerate(streams)]
    try:
        num_open = len(streams)
        while num_open:
            item = await items.get()
            if isinstance(item, Exception):
                raise item
            num_open -= item[1].finished
            yield item
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
