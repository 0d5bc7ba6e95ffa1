"""Holds the model that the server serves, with the checks and encodings that the routes share."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from mini_vllm.core.tokenizer import Message, Tool
from mini_vllm.engine.admission import longest_request
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.counts import HISTOGRAMS, BucketCounts
from mini_vllm.engine.errors import ContextLengthError
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm_labs.serving.errors import ApiError, invalid, unavailable
from mini_vllm_labs.serving.settings import ServerSettings

MAX_SHORT_TEXT = 2000  # characters
# a prompt that is slightly too long is still tokenized, so that its error can state the exact number of tokens
MAX_TIMES = 2


class ServedModel:
    """An engine, and the model name that clients use for it."""

    def __init__(self, llm: AsyncLLM, settings: ServerSettings) -> None:
        self.llm = llm
        self.settings = settings
        self.name = settings.model_name
        self.names = (self.name, *settings.adapters)
        self.created = int(time.time())
        self.max_model_len = llm.config.max_model_len or 0
        self.streams: set[Callable[[str], Awaitable[None]]] = set()  # functions that send a notice to an open stream
        self.params_n = BucketCounts(HISTOGRAMS["request_params_n"][1])
        self._max_tokens = self.max_model_len

    async def open(self) -> None:
        """Fetch the length of the longest request that the engine can serve."""
        self._max_tokens = await self.llm.call(max_tokens_of_request)

    async def pass_on_notices(self) -> None:
        """Notify the open streams whenever a call into the engine is slow, until the task is cancelled."""
        told = ""
        while True:
            await asyncio.sleep(0.25)
            before, told = told, self.llm.notice
            if told not in ("", before):
                await asyncio.gather(*(tell(told) for tell in self.streams), return_exceptions=True)

    def require(self, name: str | None) -> None:
        """Raise `ApiError` (404) unless a request names this model, an adapter, or no model."""
        if name is not None and name not in self.names:
            message = f"The model `{name}` does not exist. This server serves {', '.join(map(repr, self.names))}."
            raise ApiError(404, message, param="model", code="model_not_found")

    def adapter_of(self, name: str | None) -> str | None:
        """Return the adapter that a request names, or None if it names the model itself."""
        return None if name == self.name else name

    def require_running(self) -> None:
        """Raise `ApiError` (503) if the engine does not accept requests."""
        if self.llm.is_shutting_down:
            raise unavailable("the server is shutting down and accepts no more requests", "shutting_down")
        if not self.llm.is_alive:
            raise unavailable(f"the engine has stopped: restart the server. {self.llm.reason_of_death}", "engine_dead")

    def require_responsive(self) -> None:
        """Raise `ApiError` (503) if the engine does not accept requests or has been in a step for `step_timeout`."""
        self.require_running()
        seconds = self.llm.seconds_in_step
        if seconds > self.settings.step_timeout:
            about = f"the engine has been in one step for {seconds:.0f} seconds. {self.llm.notice}"
            raise unavailable(about.rstrip(), "engine_stuck")

    def room_for(self, num_prompt_tokens: int) -> int:
        """Return the maximum length of an answer in tokens, which is at least 1."""
        return max(1, self._max_tokens - num_prompt_tokens)

    def require_room(self, texts: Iterable[str], max_tokens: int, at_least: int = 0) -> None:
        """Raise `ContextLengthError` if a prompt certainly has at least `MAX_TIMES` times as many tokens as allowed,
        without tokenizing it.

        Tokenizing 3 MB takes seconds. `at_least` is a number of tokens to add to those of `texts`.
        """
        num_tokens = at_least + sum(map(len, texts)) // self.llm.tokenizer.max_characters_per_token
        if num_tokens >= MAX_TIMES * self.max_model_len:
            message = (
                f"the prompt has at least {num_tokens} tokens, judged by its characters, but at most "
                f"max_model_len - 1 = {self.max_model_len - 1} leave room for an answer"
            )
            raise ContextLengthError(message, num_tokens, max_tokens, self.max_model_len)

    async def encode(self, text: str) -> list[int]:
        """Return the tokens of a text. A long text is encoded in a thread, so that other requests do not wait."""
        encode = self.llm.tokenizer.encode
        return encode(text) if len(text) < MAX_SHORT_TEXT else await asyncio.to_thread(encode, text)

    async def encode_chat(self, messages: list[Message], tools: Sequence[Tool] = ()) -> list[int]:
        """Return the tokens of a chat. A template that does not support tools omits them.

        Raises `ApiError` if the template omits tool calls or their results from the prompt.
        """

        def encode() -> list[int]:
            token_ids = self.llm.tokenizer.apply_chat_template(messages, tools)
            for place, other in first_call_and_result_changed(messages):
                changed = [*messages[:place], other, *messages[place + 1 :]]
                if self.llm.tokenizer.apply_chat_template(changed, tools) == token_ids:
                    what = "results of tools" if other["role"] == "tool" else "tool_calls"
                    raise ValueError(
                        f"the model's chat template does not support {what}, which appears in messages.{place}"
                    )
            return token_ids

        is_short = sum(len(message["content"]) for message in messages) < MAX_SHORT_TEXT and not tools
        try:
            return encode() if is_short else await asyncio.to_thread(encode)
        except ValueError as error:
            raise invalid(str(error), "messages") from error


def first_call_and_result_changed(messages: list[Message]) -> Iterator[tuple[int, Message]]:
    """Yield the first message with calls and the first with a result, each as (index, changed copy)."""
    for place, message in enumerate(messages):
        if message.get("tool_calls"):
            call = {"type": "function", "function": {"name": "another", "arguments": {}}}
            yield place, {**message, "tool_calls": [{**message["tool_calls"][0], **call}]}
            break
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            yield place, {**message, "content": message["content"] + "."}
            break


def max_tokens_of_request(engine: LLMEngine) -> int:
    """Return the maximum number of tokens, including the prompt, in a request to an engine."""
    scheduler = engine.scheduler
    return longest_request(scheduler.max_model_len, scheduler.kv, scheduler.max_held_blocks)
