"""A transformers tokenizer for the engine. Imports no torch: a server's process needs text and no tensors."""

from collections.abc import Sequence
from typing import Any

from tokenizers.models import BPE

from mini_vllm.core.tokenizer import Message, Tool
from mini_vllm.runner.chat_template import encode_chat


class ModelTokenizer:
    """Adapts a transformers tokenizer to the engine's `Tokenizer`."""

    def __init__(self, tokenizer: Any, eos_token_ids: frozenset[int]) -> None:
        self.tokenizer = tokenizer
        self.eos_token_ids = eos_token_ids
        added = {str(one): token_id for token_id, one in tokenizer.added_tokens_decoder.items() if one.special}
        self.control_tokens = added | dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))
        backend: Any = getattr(tokenizer, "backend_tokenizer", None)
        # For byte-pair encodings transformers makes the same call, after checks that cost more than the decoding.
        is_plain = type(getattr(backend, "model", None)) is BPE
        self._decode = backend.decode if is_plain else tokenizer.decode if backend is not None else self._decode_known

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text))

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self._decode(token_ids, skip_special_tokens=True))

    def _decode_known(self, token_ids: Sequence[int], **settings: bool) -> str:
        """Decode with a tokenizer in Python, which raises for a token that only the model has."""
        known = [token_id for token_id in token_ids if token_id < len(self.tokenizer)]
        return str(self.tokenizer.decode(known, **settings))

    def token_bytes(self) -> list[bytes]:
        """Return the bytes of every token; those of control tokens are empty."""
        control = {*self.tokenizer.all_special_ids, *self.tokenizer.added_tokens_decoder}
        names = self.tokenizer.convert_ids_to_tokens(list(range(len(self.tokenizer))))
        is_byte_level = "ByteLevel" in str(self.tokenizer.backend_tokenizer.decoder)
        to_bytes = _byte_level if is_byte_level else _with_byte_fallback
        return [b"" if token_id in control or not name else to_bytes(name) for token_id, name in enumerate(names)]

    def apply_chat_template(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int]:
        """Return the tokens of a chat. Raises `ValueError` if its messages cannot all arrive in the prompt."""
        return encode_chat(self.tokenizer, messages, tools)


def _byte_level(name: str) -> bytes:
    """GPT-2 names bytes that are no visible character by characters from 256 on, in the order of the bytes."""
    visible = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return bytes(ord(char) if ord(char) < 256 else hidden[ord(char) - 256] for char in name)


def _with_byte_fallback(name: str) -> bytes:
    """SentencePiece names a blank by U+2581, and a byte that no token has by its number."""
    is_byte = len(name) == 6 and name.startswith("<0x") and name.endswith(">")
    return bytes([int(name[3:5], 16)]) if is_byte else name.replace("\u2581", " ").encode()
