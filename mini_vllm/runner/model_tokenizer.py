"""Adapts a transformers tokenizer. This module does not import torch, because a server's process needs no tensors."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from tokenizers.models import BPE

from mini_vllm.core.tokenizer import Message, Tool
from mini_vllm.runner.chat_template import encode_chat
from mini_vllm.runner.token_bytes import bytes_of_tokens


class ModelTokenizer:
    """Adapts a transformers tokenizer to the engine's `Tokenizer`."""

    def __init__(self, tokenizer: Any, eos_token_ids: frozenset[int]) -> None:
        self.tokenizer = tokenizer
        self.eos_token_ids = eos_token_ids
        # mistral-common has a method of this name instead, and it raises an error
        decoder = getattr(tokenizer, "added_tokens_decoder", None)
        special = decoder.items() if isinstance(decoder, Mapping) else ()
        added = {str(one): token_id for token_id, one in special if one.special}
        self.control_tokens = added | dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))
        backend: Any = getattr(tokenizer, "backend_tokenizer", None)
        # For byte-pair encodings, transformers makes the same call, but only after checks that cost more than decoding.
        is_plain = type(getattr(backend, "model", None)) is BPE
        self._decode = backend.decode if is_plain else tokenizer.decode if backend is not None else self._decode_known

    @cached_property
    def max_characters_per_token(self) -> int:
        return max(map(len, self.tokenizer.get_vocab()))

    def encode(self, text: str) -> list[int]:
        """Return a text's tokens. Raises `ValueError` for a lone surrogate, as in text that was not UTF-8."""
        if not text.isascii():
            text.encode()
        return list(self.tokenizer.encode(text))

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self._decode(token_ids, skip_special_tokens=True))

    def _decode_known(self, token_ids: Sequence[int], **settings: bool) -> str:
        """Decode with a Python tokenizer, omitting token ids that only the model has, because these would raise an
        error."""
        known = [token_id for token_id in token_ids if token_id < len(self.tokenizer)]
        return str(self.tokenizer.decode(known, **settings))

    def token_bytes(self) -> list[bytes]:
        return bytes_of_tokens(self.tokenizer, self.decode)

    def apply_chat_template(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int]:
        """Return the tokens of a chat. Raises `ValueError` if the template would lose a message."""
        return encode_chat(self.tokenizer, messages, tools)
