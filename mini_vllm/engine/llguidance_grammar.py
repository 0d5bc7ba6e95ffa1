"""Grammars run by llguidance, an optional package: JSON schemas and Lark grammars, which no DFA can express."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from mini_vllm.electives.grammar import Bitmask
from mini_vllm.installation import install_command


def llguidance() -> Any:
    """Return the package. If it is missing, raises `ValueError` with the command that installs it."""
    try:
        return import_module("llguidance")
    except ImportError:
        words = "structured_outputs with json, json_object or grammar needs llguidance"
        raise ValueError(f"{words}: {install_command('structured')}") from None


def reason_of(error: str) -> str:
    """Shorten an llguidance error to one line: its first line and, for a regex, the cause on a later line."""
    head, *more = error.splitlines()
    if head.startswith("NoExtension"):
        return "the grammar allows no text"
    why = [line.removeprefix("error: ") for line in more if line.startswith("error: ")]
    if not why:
        return head
    regex = f" {more[0].strip()!r}" if head == "regex parse error:" else ""
    return f"{head.removesuffix(':')}{regex}: {why[0]}"


class LLGuidanceGrammar:
    """A `Grammar` built on an `LLMatcher`. Its methods raise `ValueError` with llguidance's reason on failure."""

    def __init__(self, matcher: Any, eos_token_ids: frozenset[int]) -> None:
        self.matcher = matcher
        self.eos_token_ids = eos_token_ids
        self.tokens: list[int] = []

    @property
    def num_processed_tokens(self) -> int:
        return len(self.tokens)

    def accept_tokens(self, request_id: str, tokens: Sequence[int]) -> bool:
        for token_id in tokens:
            if self.is_terminated():
                return False
            # Track the end here: a matcher accepts only one end-of-text token, and none of the end tokens named in its
            # grammar.
            if token_id in self.eos_token_ids:
                is_allowed = self._allows(token_id)
            else:
                is_allowed = bool(self.matcher.try_consume_tokens([token_id]))
            if not is_allowed:
                self._require_no_error()
                return False
            self.tokens.append(token_id)
        return True

    def _allows(self, token_id: int) -> bool:
        return bool(self.matcher.compute_bitmask()[token_id // 8] >> token_id % 8 & 1) and not self.matcher.is_error()

    def validate_tokens(self, tokens: Sequence[int]) -> list[int]:
        num_before = len(self.tokens)
        self.accept_tokens("", tokens)
        valid = self.tokens[num_before:]
        self.rollback(len(valid))
        return valid

    def rollback(self, num_tokens: int) -> None:
        num_in_matcher = num_tokens - (num_tokens > 0 and self.is_terminated())
        if num_in_matcher and not self.matcher.rollback(num_in_matcher):
            raise ValueError(f"llguidance cannot roll back {num_in_matcher} tokens: {self.matcher.get_error()}")
        del self.tokens[len(self.tokens) - num_tokens :]

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        if self.is_terminated():
            bitmask[row] = -1
            return
        mask = memoryview(bitmask[row]).cast("B")
        # llguidance's mask has more bits than there are tokens
        mask[:] = self.matcher.compute_bitmask()[: len(mask)]
        self._require_no_error()  # a failed matcher allows only the end of the text

    def _require_no_error(self) -> None:
        if self.matcher.is_error():
            raise ValueError(
                f"structured_outputs cannot be enforced any further: {reason_of(self.matcher.get_error())}"
            )

    def is_terminated(self) -> bool:
        return bool(self.tokens) and self.tokens[-1] in self.eos_token_ids
