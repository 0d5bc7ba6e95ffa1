"""Phase 9: from a regex to a mask over the logits.

The engine calls `build_dfa` in the background; the runner uses the masks and the grammar in every step.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mini_vllm.electives.automaton import MAX_DFA_STATES, START, TERMINATED, Dfa, Nfa, TrieNode
from mini_vllm.electives.grammar import Bitmask

if TYPE_CHECKING:
    from torch import Tensor


def next_positions(nfa: Nfa, positions: frozenset[int], byte: int) -> frozenset[int]:
    """Return the positions that read `byte` and may follow one of `positions`."""
    raise NotImplementedError("Phase 9, task 1: next_positions")


def build_dfa(nfa: Nfa, alphabet: frozenset[int]) -> Dfa:
    """Return the DFA of a regex over the bytes of `alphabet`, the only bytes that a text can contain.

    States from which no text reaches the end are left out, and so are the bytes that lead to them; the start state is
    always kept. Raises `ValueError` if there are more than `MAX_DFA_STATES` states before any are left out.
    """
    raise NotImplementedError("Phase 9, task 2: build_dfa")


class RegexTokenMasks:
    """The tokens that a DFA allows in each state, computed when a state is first used."""

    def __init__(self, dfa: Dfa, vocabulary: TrieNode, vocab_size: int, eos_token_ids: frozenset[int]) -> None:
        raise NotImplementedError("Phase 9, task 3: store the arguments")

    def next_states(self, state: int) -> dict[int, int]:
        """Return the next state for each token that is allowed in `state`, keyed by token id.

        Where the text may end, an end-of-text token leads to `TERMINATED`, after which nothing is allowed.
        """
        raise NotImplementedError("Phase 9, task 3: next_states")

    def bitmask_row(self, state: int) -> NDArray[np.int32]:
        """Return a bitmask row [cdiv(vocab, 32)]: bit i of word w stands for token 32 * w + i."""
        raise NotImplementedError("Phase 9, task 3: bitmask_row")


def apply_bitmask(logits: "Tensor", bitmask: "Tensor", rows: Sequence[int]) -> None:
    """Set the logits [S, vocab] of forbidden tokens to minus infinity, in place.

    Row i of the bitmask [N, cdiv(vocab, 32)] applies to row `rows[i]` of the logits; the other rows stay as they are.
    """
    raise NotImplementedError("Phase 9, task 4: apply_bitmask")


class RegexGrammar:
    """A `Grammar` that records one request's states."""

    def __init__(self, masks: RegexTokenMasks) -> None:
        raise NotImplementedError("Phase 9, task 5: store the arguments")

    @property
    def num_processed_tokens(self) -> int:
        """The number of tokens accepted so far, minus those rolled back."""
        raise NotImplementedError("Phase 9, task 5: num_processed_tokens")

    def accept_tokens(self, request_id: str, tokens: Sequence[int]) -> bool:
        """Accept tokens up to the first that is not allowed; return whether all were accepted."""
        raise NotImplementedError("Phase 9, task 5: accept_tokens")

    def validate_tokens(self, tokens: Sequence[int]) -> list[int]:
        """Return the longest prefix of `tokens` that could be accepted, but accept nothing."""
        raise NotImplementedError("Phase 9, task 5: validate_tokens")

    def rollback(self, num_tokens: int) -> None:
        """Roll back the newest accepted tokens."""
        raise NotImplementedError("Phase 9, task 5: rollback")

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Set a row's bits: 1 for each token that is allowed next, or for every token once terminated."""
        raise NotImplementedError("Phase 9, task 5: fill_bitmask")

    def is_terminated(self) -> bool:
        """Return whether an end-of-text token has ended the text."""
        raise NotImplementedError("Phase 9, task 5: is_terminated")
