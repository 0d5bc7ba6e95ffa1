"""Turns one HTTP request into engine requests, one per text."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from mini_vllm import RequestOutput, SamplingParams
from mini_vllm_labs.serving.answer_format import AnswerFormat, ReportedLogprobs
from mini_vllm_labs.serving.errors import SentFields
from mini_vllm_labs.serving.served_model import ServedModel
from mini_vllm_labs.serving.tool_calls import ForcedCall

Item = tuple[int, RequestOutput]  # a choice's index and one of its outputs
Outputs = AsyncGenerator[Item, None]


@dataclass(frozen=True, slots=True)
class TextChoice:
    """One text to generate; `echo` is the prompt to repeat before it, or empty."""

    prompt_token_ids: list[int]
    sampling_params: SamplingParams
    echo: str = ""


def choices_of(prompt_token_ids: list[int], params: SamplingParams, n: int, echo: str = "") -> list[TextChoice]:
    """Return `n` choices for a prompt; if `params` has a seed, each choice gets a different seed.

    vLLM: `ParentRequest` in `v1/engine/parallel_sampling.py`.
    """
    seeds = [None if params.seed is None else params.seed + index for index in range(n)]
    return [TextChoice(prompt_token_ids, replace(params, seed=seed), echo) for seed in seeds]


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """The choices of one HTTP request, with `n` consecutive choices per prompt. `request_id` is unique while the
    request runs."""

    request_id: str
    format: AnswerFormat
    served: ServedModel
    choices: Sequence[TextChoice]
    n: int
    include_usage: bool
    continuous_usage: bool
    priority: int
    cache_salt: str | None
    adapter_id: str | None
    sent: SentFields
    forced_call: ForcedCall | None = None
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def answer_id(self) -> str:
        return f"{self.format.id_prefix}-{self.request_id}"

    def finish_reason(self, reason: str | None) -> str | None:
        return reason if self.forced_call is None else self.forced_call.finish_reason(reason)

    def outputs(self) -> Outputs:
        """Yield the outputs of all choices as they arrive. Raises the errors of `AsyncLLM.generate`.

        If one choice cannot be served or the reader stops early, the others are aborted.
        """
        streams = [self._generate(index, choice) for index, choice in enumerate(self.choices)]
        return merged(streams) if len(streams) > 1 else numbered(streams[0])

    async def _generate(self, index: int, choice: TextChoice) -> AsyncGenerator[RequestOutput, None]:
        stream = self.served.llm.generate(
            choice.prompt_token_ids,
            choice.sampling_params,
            f"{self.answer_id}-{index}",
            priority=self.priority,
            cache_salt=self.cache_salt,
            adapter_id=self.adapter_id,
            timeout=self.served.settings.request_timeout,
        )
        async with aclosing(stream):
            async for output in stream:
                if output.finished and index % self.n == 0:  # counted once per prompt, for its first text
                    self.served.params_n.observe(self.n)
                yield output

    def reported_logprobs(self, index: int) -> ReportedLogprobs | None:
        """Return a reporter for a choice's logprobs, or None if the request does not ask for them."""
        shown = self.choices[index].sampling_params.logprobs
        return None if shown is None else ReportedLogprobs(self.served.llm.tokenizer, shown)

    def usage(self, outputs: Sequence[RequestOutput]) -> dict[str, object]:
        """Count the tokens in each choice's last output. A prompt counts only once for all its choices."""
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
    """Number the outputs of a single stream, without needing the task and the queue that `merged` uses."""
    async with aclosing(stream):
        async for output in stream:
            yield 0, output


async def merged(streams: Sequence[AsyncGenerator[RequestOutput, None]]) -> Outputs:
    """Merge several streams, without reading ahead of the consumer."""
    # otherwise, a slow reader would get individual outputs instead of merged ones
    items = asyncio.Queue[Item | Exception](maxsize=1)

    async def read(index: int, stream: AsyncGenerator[RequestOutput, None]) -> None:
        try:
            async with aclosing(stream):
                async for output in stream:
                    await items.put((index, output))
        except Exception as error:
            await items.put(error)  # raised in the reader below, because an exception in this task would be lost

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
        await asyncio.gather(*readers, return_exceptions=True)  # waits until each reader has aborted its request
