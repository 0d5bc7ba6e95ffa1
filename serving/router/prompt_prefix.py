"""The prefix of a request's prompt, from its body: what the router compares, without a tokenizer."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from serving.router.policies import chained

CHARACTERS_PER_BLOCK = 64
"""About the text of one block of 16 tokens."""
TOKENS_PER_BLOCK = 16


def prefix_of_bytes(body: bytes) -> list[int]:
    """Return the keys of a prompt in a body as it was sent; none if it is no JSON."""
    try:
        return prefix_of(json.loads(body))
    except (ValueError, RecursionError):
        return []


def prefix_of(body: Any) -> list[int]:
    """Return the keys of the whole blocks of a prompt; none for a body that has no prompt. It is not checked here.

    Prompts with different salts have no key in common: they share no cached block either.
    """
    if not isinstance(body, Mapping):
        return []
    if "messages" in body:
        blocks = _cut("".join(_texts(body["messages"])), CHARACTERS_PER_BLOCK)
    else:
        blocks = _blocks_of_prompt(body.get("prompt", ""))
    return chained([("salt", str(body.get("cache_salt"))), *blocks])[1:]


def _blocks_of_prompt(prompt: Any) -> list[object]:
    """Return the blocks of a text or of token ids; of several prompts those of the first."""
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return _cut(prompt, CHARACTERS_PER_BLOCK)
    is_tokens = isinstance(prompt, list) and all(type(token) is int for token in prompt)
    return _cut(tuple(prompt), TOKENS_PER_BLOCK) if is_tokens else []


def _texts(messages: Any) -> Iterator[str]:
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, Mapping):
            yield f"{message.get('role')}\n{message.get('content')}\n"


def _cut(prompt: str | tuple[int, ...], size: int) -> list[object]:
    """Return the whole blocks: the last one may still grow in the next turn."""
    return [prompt[start : start + size] for start in range(0, len(prompt) - size + 1, size)]
