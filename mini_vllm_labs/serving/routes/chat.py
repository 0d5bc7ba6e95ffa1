"""Serves `/v1/chat/completions`, which generates the next message of a conversation.

vLLM: `entrypoints/openai/chat_completion/{protocol,serving}.py`.
"""

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BeforeValidator, Field, PlainValidator, model_validator

from mini_vllm.core.tokenizer import Message
from mini_vllm.sampling_params import MAX_LOGPROBS
from mini_vllm_labs.serving.answer_format import CHAT
from mini_vllm_labs.serving.errors import SentFields, invalid
from mini_vllm_labs.serving.generate_request import TextChoice, choices_of
from mini_vllm_labs.serving.routes.common import generate_router
from mini_vllm_labs.serving.routes.fields import Empty, Fields, Positive, SamplingFields, shown
from mini_vllm_labs.serving.routes.tools import ToolFields
from mini_vllm_labs.serving.served_model import ServedModel


def text_of(content: object) -> str:
    """Return a message's text: the string, or the text parts joined by newlines as in vLLM.

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
        raise ValueError(f"has a part of type {shown(kind)}, which is not supported: this server reads only text")
    match part:
        case {"type": "text", "text": str(text), **rest} if not rest:
            return text
    raise ValueError(f"has a text part with fields other than type and text: {shown(part)}")


def arguments_of(text: object) -> dict[str, Any]:
    """Parse a call's arguments. Raises `ValueError` unless the text is a JSON object."""
    try:
        arguments = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise ValueError(f"must be a JSON object in a string, got {shown(text)}")
    return arguments


class FunctionCall(Fields):
    """A function call in an earlier answer."""

    name: str
    arguments: Annotated[dict[str, Any], PlainValidator(arguments_of)]


class ToolCall(Fields):
    """A function call in an earlier answer, with the id that its result refers to."""

    id: str
    type: Literal["function"]
    function: FunctionCall
    index: int | None = None


class ChatMessage(Fields):
    """One message. Clients send earlier answers back, so this class also accepts an answer's extra fields, which must
    be null."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Annotated[str, BeforeValidator(text_of)]

    name: str | None = None
    refusal: None = None
    annotations: Empty | None = None
    reasoning_content: None = None
    audio: None = None
    function_call: FunctionCall | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None

    @model_validator(mode="before")
    @classmethod
    def call_without_text(cls, message: Any) -> Any:
        """Allow a message without text if it contains a call."""
        is_call = isinstance(message, dict) and (message.get("tool_calls") or message.get("function_call"))
        return message | {"content": message.get("content") or ""} if is_call else message

    @model_validator(mode="after")
    def of_its_role(self) -> "ChatMessage":
        """Reject fields that belong to a different role."""
        if (self.tool_calls or self.function_call) and self.role != "assistant":
            raise ValueError(
                f"has calls, but only the assistant role may have them; this message's role is {self.role}"
            )
        if (self.role == "tool") != (self.tool_call_id is not None):
            raise ValueError(f"must have tool_call_id if and only if its role is tool; its role is {self.role}")
        return self

    def for_template(self) -> Message:
        """Return the message for chat templates, with legacy names replaced by new ones and arguments as objects."""
        message: dict[str, Any] = {"role": "tool" if self.role == "function" else self.role, "content": self.content}
        if message["role"] == "tool":
            message |= {key: value for key in ("tool_call_id", "name") if (value := getattr(self, key)) is not None}
        calls = [one.model_dump(exclude={"index"}) for one in self.tool_calls or ()]
        if self.function_call is not None:
            calls.append({"type": "function", "function": self.function_call.model_dump()})
        return message | ({"tool_calls": calls} if calls else {})


Messages = Annotated[list[ChatMessage], Field(min_length=1, max_length=10_000)]


def as_chat(messages: list[ChatMessage]) -> list[Message]:
    return [message.for_template() for message in messages]


class ChatCompletionRequest(ToolFields, SamplingFields):
    """A conversation that a client wants continued."""

    messages: Messages
    max_completion_tokens: Positive | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None

    # Only values that do not affect the answer are accepted.
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
        """The token limit, from either the new or the old field. Raises `ApiError` if the two differ."""
        new, old = self.max_completion_tokens, self.max_tokens
        if new is not None and old is not None and new != old:
            raise invalid(f"max_completion_tokens is {new}, but max_tokens is {old}", "max_completion_tokens")
        return old if new is None else new

    @property
    def sent(self) -> SentFields:
        """The names of the fields as the client sent them."""
        limit = "max_tokens" if self.max_completion_tokens is None else "max_completion_tokens"
        called = "functions" if self.is_legacy else "tools"
        structure = called if self.forced_call() else super().sent.structured_outputs
        return SentFields("messages", limit, structure)

    @property
    def num_logprobs(self) -> int | None:
        """The number of likeliest tokens to report, or None without logprobs. Raises `ApiError`."""
        if not self.logprobs:
            if self.top_logprobs:
                raise invalid("top_logprobs needs logprobs: true", "top_logprobs")
            return None
        return self.top_logprobs or 0


def chat_router(served: ServedModel) -> APIRouter:
    return generate_router(served, "/v1/chat/completions", CHAT, ChatCompletionRequest, texts_of)


async def texts_of(body: ChatCompletionRequest, served: ServedModel) -> list[TextChoice]:
    """Return the texts to generate for a request body. Raises `ApiError` if this server does not support a field's
    value.

    Without a limit, the answer may use all the tokens that remain after the conversation.
    """
    n, max_choices = body.n or 1, served.settings.max_choices
    if n > max_choices:
        raise invalid(f"n must be at most {max_choices}, got {n}", "n")
    # In any template, each message takes up at least one token.
    texts = (message.content for message in body.messages)
    served.require_room(texts, body.asked_max_tokens or 1, at_least=len(body.messages))
    prompt_token_ids = await served.encode_chat(as_chat(body.messages), body.described_tools)
    max_tokens = body.asked_max_tokens or served.room_for(len(prompt_token_ids))
    return choices_of(prompt_token_ids, body.sampling_params(max_tokens, body.num_logprobs), n)
