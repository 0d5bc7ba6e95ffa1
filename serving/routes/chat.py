"""`/v1/chat/completions`: the next message of a conversation.

vLLM: `entrypoints/openai/chat_completion/{protocol,serving}.py`.
"""

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BeforeValidator, Field

from mini_vllm.core.tokenizer import Message
from mini_vllm.sampling_params import MAX_LOGPROBS
from serving.answer_format import CHAT
from serving.errors import invalid
from serving.generate_request import TextChoice, choices_of
from serving.routes.common import generate_router
from serving.routes.fields import Empty, Fields, Positive, SamplingFields, shown
from serving.served_model import ServedModel


def text_of(content: object) -> str:
    """Return the text of a message: a string, or text parts joined by newlines as in vLLM.

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
    """One message. The fields that must be null are those of an answer, because clients send answers back."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str, BeforeValidator(text_of)]

    name: str | None = None
    refusal: None = None
    annotations: Empty | None = None
    reasoning_content: None = None
    audio: None = None
    function_call: None = None
    tool_calls: Empty | None = None
    tool_call_id: None = None


Messages = Annotated[list[ChatMessage], Field(min_length=1)]


def as_chat(messages: list[ChatMessage]) -> list[Message]:
    return [{"role": message.role, "content": message.content} for message in messages]


class ChatCompletionRequest(SamplingFields):
    """A conversation that a client asks to have continued."""

    messages: Messages
    max_completion_tokens: Positive | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None

    # Harmless values alone: ignored, another one would change the answer.
    tools: Empty | None = None
    tool_choice: Literal["none", "auto"] | None = None
    parallel_tool_calls: bool | None = None
    functions: Empty | None = None
    function_call: Literal["none", "auto"] | None = None
    modalities: Annotated[list[Literal["text"]], Field(min_length=1, max_length=1)] | None = None
    audio: None = None
    prediction: None = None
    reasoning_effort: Literal["none"] | None = None
    verbosity: Literal["medium"] | None = None
    web_search_options: None = None
    echo: Literal[False] | None = None
    add_generation_prompt: Literal[True] | None = None
    continue_final_message: Literal[False] | None = None
    chat_template_kwargs: Annotated[dict[str, Any], Field(max_length=0)] | None = None

    @property
    def asked_max_tokens(self) -> int | None:
        """The limit under its new or its old name. Raises `ApiError` if the two differ."""
        new, old = self.max_completion_tokens, self.max_tokens
        if new is not None and old is not None and new != old:
            raise invalid(f"max_completion_tokens is {new}, but max_tokens is {old}", "max_completion_tokens")
        return old if new is None else new

    @property
    def num_logprobs(self) -> int | None:
        """How many of the likeliest tokens to report, None for no logprobs. Raises `ApiError`."""
        if not self.logprobs:
            if self.top_logprobs:
                raise invalid("top_logprobs needs logprobs: true", "top_logprobs")
            return None
        return self.top_logprobs or 0


def chat_router(served: ServedModel) -> APIRouter:
    return generate_router(served, "/v1/chat/completions", CHAT, ChatCompletionRequest, texts_of)


async def texts_of(body: ChatCompletionRequest, served: ServedModel) -> list[TextChoice]:
    """Return the texts that a body asks for. Raises `ApiError` for what this server cannot do.

    Without a limit the answer may use all the room that the conversation leaves.
    """
    n, max_choices = body.n or 1, served.settings.max_choices
    if n > max_choices:
        raise invalid(f"n must be at most {max_choices}, got {n}", "n")
    prompt_token_ids = await served.encode_chat(as_chat(body.messages))
    max_tokens = body.asked_max_tokens or served.room_for(len(prompt_token_ids))
    return choices_of(prompt_token_ids, body.sampling_params(max_tokens, body.num_logprobs), n)
