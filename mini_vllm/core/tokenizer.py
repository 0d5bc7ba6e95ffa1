"""Text to token ids and back: what the engine needs of a tokenizer, and one that needs no files."""

from collections.abc import Mapping, Sequence
from typing import Protocol

Message = Mapping[str, str]


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

    def apply_chat_template(self, messages: Sequence[Message]) -> list[int]:
        """Return the tokens of a chat, up to where the assistant's answer begins."""


class ByteTokenizer:
    """One token per UTF-8 byte; token 256 ends a text."""

    eos_token_ids = frozenset([256])
    control_tokens: Mapping[str, int] = {}

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(token_id for token_id in token_ids if token_id < 256).decode(errors="replace")

    def token_bytes(self) -> list[bytes]:
        return [bytes([byte]) for byte in range(256)]

    def apply_chat_template(self, messages: Sequence[Message]) -> list[int]:
        turns = [f"{message['role']}: {message['content']}\n" for message in messages]
        return self.encode("".join(turns) + "assistant: ")
