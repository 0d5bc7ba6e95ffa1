"""Grammars of llguidance: JSON schemas and Lark grammars, which no DFA can follow. The package is optional."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from mini_vllm.core.grammar import Bitmask
from mini_vllm.installation import install_command


def llguidance() -> Any:
    """Return the package. Raises `ValueError` with the command that installs it."""
    try:
        return import_module("llguidance")
    except ImportError:
        words = "structured_outputs with json, json_object or grammar needs llguidance"
        raise ValueError(f"{words}: {install_command('structured')}") from None


class LLGuidanceGrammar:
    """A `Grammar` over an `LLMatcher`."""

    def __init__(self, matcher: Any, eos_token_ids: frozenset[int]) -> None:
        self.matcher = matcher
        self.eos_token_ids = eos_token_ids
        self.tokens: list[int] = []

    @property
    def num_processed_tokens(self) -> int:
        return len(self.tokens)

    def accept_tokens(self, request_id: str, tokens: Sequence[int]) -> bool:
        for token_id in tokens:
            # The end is kept here: a matcher that has read a whole text takes only one of several end-of-text tokens.
            is_end = token_id in self.eos_token_ids
            if self.is_terminated():
                return False
            if not (self.matcher.is_accepting() if is_end else self.matcher.try_consume_tokens([token_id])):
                return False
            self.tokens.append(token_id)
        return True

    def validate_tokens(self, tokens: Sequence[int]) -> list[int]:
        num_before = len(self.tokens)
        self.accept_tokens("", tokens)
        valid = self.tokens[num_before:]
        self.rollback(len(valid))
        return valid

    def rollback(self, num_tokens: int) -> None:
        num_in_matcher = num_tokens - (num_tokens > 0 and self.is_terminated())
        if num_in_matcher and not self.matcher.rollback(num_in_matcher):
            raise ValueError(f"llguidance cannot take back {num_in_matcher} tokens: {self.matcher.get_error()}")
        del self.tokens[len(self.tokens) - num_tokens :]

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        if self.is_terminated():
            bitmask[row] = -1
            return
        mask = memoryview(bitmask[row]).cast("B")
        mask[:] = self.matcher.compute_bitmask()[: len(mask)]  # it has a bit more than there are tokens
        if self.matcher.is_error():  # it would allow the end of the text, and nothing else
            raise ValueError(f"llguidance failed: {self.matcher.get_error().splitlines()[0]}")

    def is_terminated(self) -> bool:
        return bool(self.tokens) and self.tokens[-1] in self.eos_token_ids
