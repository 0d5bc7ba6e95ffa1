"""What clients in the tests of the notebook's server ask."""

from collections.abc import Callable, Iterator
from typing import Any

from openai import OpenAI
from openai.types.chat import ChatCompletion

MODEL = "mini-vllm"


def message(text: str) -> Any:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}]}


def ask(text: str, max_tokens: int) -> Callable[[OpenAI], ChatCompletion]:
    """Return a function that asks for a whole answer."""

    def answer(client: OpenAI) -> ChatCompletion:
        whole: ChatCompletion = client.chat.completions.create(**message(text), max_tokens=max_tokens)
        return whole

    return answer


def stream(text: str, max_tokens: int) -> Callable[[OpenAI], Iterator[str | None]]:
    """Return a function that yields the pieces of an answer."""

    def pieces(client: OpenAI) -> Iterator[str | None]:
        for event in client.chat.completions.create(**message(text), max_tokens=max_tokens, stream=True):
            yield event.choices[0].delta.content

    return pieces
