"""A transformers tokenizer for the engine. Imports no torch: a server's process needs text and no tensors."""

from collections.abc import Sequence
from typing import Any

from tokenizers.models import BPE

from mini_vllm.core.tokenizer import Message


class ModelTokenizer:
    """Adapts a transformers tokenizer to the engine's `Tokenizer`."""

    def __init__(self, tokenizer: Any, eos_token_ids: frozenset[int]) -> None:
        self.tokenizer = tokenizer
        self.eos_token_ids = eos_token_ids
        added = {str(one): token_id for token_id, one in tokenizer.added_tokens_decoder.items() if one.special}
        self.control_tokens = added | dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))
        backend: Any = getattr(tokenizer, "backend_tokenizer", None)
        # For byte-pair encodings transformers makes the same call, after checks that cost more than the decoding.
        self._decode = backend.decode if type(getattr(backend, "model", None)) is BPE else tokenizer.decode

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text))

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self._decode(token_ids, skip_special_tokens=True))

    def token_bytes(self) -> list[bytes]:
        """Return the bytes of every token; those of control tokens are empty."""
        control = {*self.tokenizer.all_special_ids, *self.tokenizer.added_tokens_decoder}
        names = self.tokenizer.convert_ids_to_tokens(list(range(len(self.tokenizer))))
        is_byte_level = "ByteLevel" in str(self.tokenizer.backend_tokenizer.decoder)
        to_bytes = _byte_level if is_byte_level else _with_byte_fallback
        return [b"" if token_id in control or not name else to_bytes(name) for token_id, name in enumerate(names)]

    def apply_chat_template(self, messages: Sequence[Message]) -> list[int]:
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return list(self.tokenizer.encode(text, add_special_tokens=False))


def _byte_level(name: str) -> bytes:
    """GPT-2 names bytes that are no visible character by characters from 256 on, in the order of the bytes."""
    visible = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return bytes(ord(char) if ord(char) < 256 else hidden[ord(char) - 256] for char in name)


def _with_byte_fallback(name: str) -> bytes:
    """SentencePiece names a blank by U+2581, and a byte that no token has by its number."""
    is_byte = len(name) == 6 and name.startswith("<0x") and name.endswith(">")
    return bytes([int(name[3:5], 16)]) if is_byte else name.replace("\u2581", " ").encode()
