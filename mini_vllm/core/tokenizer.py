"""Converts text to token ids and back: the engine's tokenizer protocol, and a tokenizer that needs no files."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Message = Mapping[str, Any]  # role and content, both strings; optionally also tool_calls or tool_call_id
Tool = Mapping[str, Any]


class Tokenizer(Protocol):
    """The methods that the engine needs from a tokenizer."""

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """The tokens that end a text."""

    @property
    def control_tokens(self) -> Mapping[str, int]:
        """The control tokens' ids, keyed by name. `decode` leaves them out, so a text never contains them."""

    @property
    def max_characters_per_token(self) -> int:
        """The maximum number of characters that one token can represent, as in vLLM's check of a prompt's length."""

    def encode(self, text: str) -> list[int]: ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of the tokens. Bytes that do not form a whole character become U+FFFD."""

    def token_bytes(self) -> list[bytes]:
        """Return the bytes of every token in the vocabulary, keyed by token id; empty for control tokens."""

    def apply_chat_template(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int]:
        """Return the tokens of a chat up to the start of the assistant's answer. `tools` are in OpenAI's format."""


class ByteTokenizer:
    """A tokenizer with one token per UTF-8 byte; token 256 ends a text."""

    eos_token_ids = frozenset([256])
    control_tokens: Mapping[str, int] = {}
    max_characters_per_token = 1

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(token_id for token_id in token_ids if token_id < 256).decode(errors="replace")

    def token_bytes(self) -> list[bytes]:
        return [*(bytes([byte]) for byte in range(256)), b""]

    def apply_chat_template(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int]:
        shown = [f"tool: {json.dumps(tool)}\n" for tool in tools]
        for message in messages:
            calls = [json.dumps(call) for call in message.get("tool_calls", ())]
            shown.append(" ".join([f"{message['role']}:", message["content"], *calls]) + "\n")
        return self.encode("".join(shown) + "assistant: ")
