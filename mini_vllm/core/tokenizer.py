"""Text to token ids and back: what the engine needs of a tokenizer, and one that needs no files."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Message = Mapping[str, Any]  # role and content, both text; perhaps tool_calls or tool_call_id
Tool = Mapping[str, Any]


class Tokenizer(Protocol):
    """What the engine needs of a tokenizer."""

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """The tokens that end a text."""

    @property
    def control_tokens(self) -> Mapping[str, int]:
        """The tokens that `decode` leaves out, by name: a text never holds them."""

    def encode(self, text: str) -> list[int]: ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text; bytes that are not a whole character become U+FFFD."""

    def token_bytes(self) -> list[bytes]:
        """Return the bytes of every token of a text, by token id; those of control tokens are empty."""

    def apply_chat_template(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int]:
        """Return the tokens of a chat, up to where the assistant's answer begins; `tools` are OpenAI's."""


class ByteTokenizer:
    """One token per UTF-8 byte; token 256 ends a text."""

    eos_token_ids = frozenset([256])
    control_tokens: Mapping[str, int] = {}

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
