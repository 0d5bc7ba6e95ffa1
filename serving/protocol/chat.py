"""The request of `/v1/chat/completions`. (vLLM: `entrypoints/openai/chat_completion/protocol.py`.)"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from mini_vllm.core.tokenizer import Message
from mini_vllm.sampling_params import MAX_LOGPROBS
from serving.errors import invalid
from serving.protocol.parsing import Fields, shown
from serving.protocol.sampling_fields import Positive, SamplingFields


def text_of(content: object) -> str:
    """Return the text of a message, from a string or from text parts, a line for each as in vLLM.

    Raises `ValueError` for images, audio, files and anything else that is not text.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        raise ValueError(f"must be a string or a list of text parts, got {shown(content)}")
    return "\n".join(_text_of_part(part) for part in content)


def _text_of_part(part: object) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind != "text":
        raise ValueError(f"has a part of type {shown(kind)}, which is not supported: this server reads text alone")
    match part:
        case {"type": "text", "text": str(text), **rest} if not rest:
            return text
    raise ValueError(f"has a text part with other fields than type and text: {shown(part)}")


class ChatMessage(Fields):
    """One message. The fields that must be null are those that an answer has, which clients send back."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str, BeforeValidator(text_of)]

    name: None = None
    refusal: None = None
    annotations: None = None
    audio: None = None
    function_call: None = None
    tool_calls: None = None
    tool_call_id: None = None


Messages = Annotated[list[ChatMessage], Field(min_length=1)]


def as_chat(messages: list[ChatMessage]) -> list[Message]:
    """Return messages as a chat template takes them."""
    return [{"role": message.role, "content": message.content} for message in messages]


class ChatCompletionRequest(SamplingFields):
    """A conversation that a client asks to have continued."""

    messages: Messages
    max_completion_tokens: Positive | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None

    tools: None = None
    tool_choice: None = None
    parallel_tool_calls: None = None
    functions: None = None
    function_call: None = None
    modalities: None = None
    audio: None = None
    prediction: None = None
    reasoning_effort: None = None
    verbosity: None = None
    web_search_options: None = None
    store: None = None
    metadata: None = None
    service_tier: None = None

    @property
    def asked_max_tokens(self) -> int | None:
        """The limit by its new name or its old one. Raises `ApiError` if they differ."""
        new, old = self.max_completion_tokens, self.max_tokens
        if new is not None and old is not None and new != old:
            raise invalid(f"max_completion_tokens is {new}, but max_tokens is {old}", "max_completion_tokens")
        return old if new is None else new

    @property
    def num_logprobs(self) -> int | None:
        """How many of the likeliest tokens to report, None for no logprobs at all. Raises `ApiError`."""
        if not self.logprobs:
            if self.top_logprobs:
                raise invalid("top_logprobs needs logprobs: true", "top_logprobs")
            return None
        return self.top_logprobs or 0
