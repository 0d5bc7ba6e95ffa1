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
        backend: Any = getattr(tokenizer, "backend_tokenizer", None)
        # For byte-pair encodings transformers makes the same call, after checks that cost more than the decoding.
        self._decode = backend.decode if type(getattr(backend, "model", None)) is BPE else tokenizer.decode

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text))

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self._decode(token_ids, skip_special_tokens=True))

    def apply_chat_template(self, messages: Sequence[Message]) -> list[int]:
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return list(self.tokenizer.encode(text, add_special_tokens=False))
