"""What one HTTP request asks of the engine: one engine request for each text that it wants."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from mini_vllm.outputs import RequestOutput
from mini_vllm.sampling_params import SamplingParams
from serving.answer_format import AnswerFormat, ReportedLogprobs
from serving.served_model import ServedModel

Item = tuple[int, RequestOutput]
"""The index of a choice and an output of it."""
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


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """The choices of one HTTP request. Those of the same prompt follow each other, `n` for each.

    `request_id` is unique among unfinished requests. `echoes` are the prompts to repeat before the texts, one for each
    choice, or none. `num_logprobs` is None if no logprobs are wanted. `prompt_field` is the field that an error of the
    prompt names.
    """

    request_id: str
    format: AnswerFormat
    served: ServedModel
    choices: Sequence[Choice]
    n: int
    prompt_field: str
    num_logprobs: int | None = None
    include_usage: bool = False
    echoes: Sequence[str] = ()
    priority: int = 0
    cache_salt: str | None = None
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def answer_id(self) -> str:
        return f"{self.format.id_prefix}-{self.request_id}"

    def outputs(self) -> Outputs:
        """Return the outputs of all choices as they come. Raises as `AsyncLLM.generate` does.

        If one choice cannot be served, or the reader leaves early, the others are aborted.
        """
        streams = [self._generate(index, choice) for index, choice in enumerate(self.choices)]
        return merged(streams) if len(streams) > 1 else numbered(streams[0])

    def _generate(self, index: int, choice: Choice) -> AsyncGenerator[RequestOutput, None]:
        return self.served.llm.generate(
            choice.prompt_token_ids,
            choice.sampling_params,
            f"{self.answer_id}-{index}",
            priority=self.priority,
            cache_salt=self.cache_salt,
            timeout=self.served.settings.request_timeout,
        )

    def reported_logprobs(self) -> ReportedLogprobs | None:
        """Return what reports the logprobs of one choice, None if they are not wanted."""
        if self.num_logprobs is None:
            return None
        return ReportedLogprobs(self.served.llm.tokenizer, self.num_logprobs)

    def usage(self, outputs: Sequence[RequestOutput]) -> dict[str, object]:
        """Return the tokens of the last outputs of all choices. A prompt counts once, however many texts it got."""
        firsts = outputs[:: self.n]
        num_prompt_tokens = sum(len(output.prompt_token_ids) for output in firsts)
        num_tokens = sum(len(output.outputs[0].token_ids) for output in outputs)
        return {
            "prompt_tokens": num_prompt_tokens,
            "completion_tokens": num_tokens,
            "total_tokens": num_prompt_tokens + num_tokens,
            "prompt_tokens_details": {"cached_tokens": sum(output.metrics.num_cached_tokens for output in firsts)},
        }


async def numbered(stream: AsyncGenerator[RequestOutput, None]) -> Outputs:
    """Yield what the only stream yields, without a task in between."""
    async with aclosing(stream):
        async for output in stream:
            yield 0, output


async def merged(streams: Sequence[AsyncGenerator[RequestOutput, None]]) -> Outputs:
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
