"""Phase 9, reference: from a regex to a mask over the logits.

vLLM: `v1/structured_output/backend_outlines.py`, whose automaton follows Willard and Louf, 2023 (Outlines).
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
    return frozenset(after for before in positions for after in nfa.follows[before] if byte in nfa.reads[after])


def build_dfa(nfa: Nfa, alphabet: frozenset[int]) -> Dfa:
    """Return the DFA of a regex over the bytes of `alphabet`, the only bytes that a text can contain.

    States from which no text reaches the end are left out, and so are the bytes that lead to them; the start state is
    always kept. Raises `ValueError` if there are more than `MAX_DFA_STATES` states before any are left out.
    """
    sets = [frozenset({START})]
    numbers = {sets[0]: START}
    transitions: list[dict[int, int]] = []
    for positions in sets:  # grows while the loop is reading it
        transitions.append({})
        for byte in alphabet:
            if after := next_positions(nfa, positions, byte):
                if after not in numbers:
                    numbers[after] = len(sets)
                    sets.append(after)
                transitions[-1][byte] = numbers[after]
        if len(sets) > MAX_DFA_STATES:
            raise ValueError(f"the regex needs more than {MAX_DFA_STATES:,} states; make it simpler")
    return _without_dead_ends(transitions, {numbers[one] for one in sets if not nfa.ends.isdisjoint(one)})


def _without_dead_ends(transitions: list[dict[int, int]], accepting: set[int]) -> Dfa:
    before: list[set[int]] = [set() for _ in transitions]
    for state, row in enumerate(transitions):
        for after in row.values():
            before[after].add(state)
    # Walk backwards from the end states: a state that this walk never reaches cannot lead to an end.
    alive, to_visit = set(accepting), list(accepting)
    while to_visit:
        found = before[to_visit.pop()] - alive
        alive |= found
        to_visit += found
    kept = sorted(alive | {START})
    number = {state: place for place, state in enumerate(kept)}
    rows = [{byte: number[after] for byte, after in transitions[state].items() if after in alive} for state in kept]
    return Dfa(rows, frozenset(number[state] for state in accepting))


class RegexTokenMasks:
    """The tokens that a DFA allows in each state, computed when a state is first used."""

    def __init__(self, dfa: Dfa, vocabulary: TrieNode, vocab_size: int, eos_token_ids: frozenset[int]) -> None:
        self.dfa, self.vocabulary = dfa, vocabulary
        self.num_words = -(-vocab_size // 32)
        self.eos_token_ids = eos_token_ids
        self._next_states: dict[int, dict[int, int]] = {}
        self._rows: dict[int, NDArray[np.int32]] = {}

    def next_states(self, state: int) -> dict[int, int]:
        """Return the next state for each token that is allowed in `state`, keyed by token id.

        Where the text may end, an end-of-text token leads to `TERMINATED`, after which nothing is allowed.
        """
        if state not in self._next_states:
            # Walk the vocabulary and the DFA together: where the DFA cannot continue, all tokens with that prefix are
            # skipped at once.
            found = dict.fromkeys(self.eos_token_ids, TERMINATED) if state in self.dfa.accepting else {}
            to_visit = [(self.vocabulary, state)] if state != TERMINATED else []
            while to_visit:
                node, at = to_visit.pop()
                found |= dict.fromkeys(node.token_ids, at)
                row = self.dfa.transitions[at]
                to_visit += [(child, row[byte]) for byte, child in node.children.items() if byte in row]
            self._next_states[state] = found
        return self._next_states[state]

    def bitmask_row(self, state: int) -> NDArray[np.int32]:
        """Return a bitmask row [cdiv(vocab, 32)]: bit i of word w stands for token 32 * w + i."""
        if state not in self._rows:
            allowed = np.zeros(32 * self.num_words, dtype=bool)
            allowed[list(self.next_states(state))] = True
            self._rows[state] = np.packbits(allowed, bitorder="little").view("<i4")
        return self._rows[state]


def apply_bitmask(logits: "Tensor", bitmask: "Tensor", rows: Sequence[int]) -> None:
    """Set the logits [S, vocab] of forbidden tokens to minus infinity, in place.

    Row i of the bitmask [N, cdiv(vocab, 32)] applies to row `rows[i]` of the logits; the other rows stay as they are.
    """
    import torch

    bits = torch.ones(32, dtype=torch.int32, device=bitmask.device) << torch.arange(32, device=bitmask.device)
    is_forbidden = ((bitmask[:, :, None] & bits) == 0).flatten(1)[:, : logits.shape[1]]
    logits[list(rows)] = logits[list(rows)].masked_fill(is_forbidden, float("-inf"))


class RegexGrammar:
    """A `Grammar` that records one request's states."""

    def __init__(self, masks: RegexTokenMasks) -> None:
        self.masks = masks
        self.states = [START]

    @property
    def num_processed_tokens(self) -> int:
        """The number of tokens accepted so far, minus those rolled back."""
        return len(self.states) - 1

    def accept_tokens(self, request_id: str, tokens: Sequence[int]) -> bool:
        """Accept tokens up to the first that is not allowed; return whether all were accepted."""
        for token_id in tokens:
            state = self.masks.next_states(self.states[-1]).get(token_id)
            if state is None:
                return False
            self.states.append(state)
        return True

    def validate_tokens(self, tokens: Sequence[int]) -> list[int]:
        """Return the longest prefix of `tokens` that could be accepted, but accept nothing."""
        num_before = self.num_processed_tokens
        self.accept_tokens("", tokens)
        num_valid = self.num_processed_tokens - num_before
        self.rollback(num_valid)
        return list(tokens[:num_valid])

    def rollback(self, num_tokens: int) -> None:
        """Roll back the newest accepted tokens."""
        del self.states[len(self.states) - num_tokens :]

    def fill_bitmask(self, bitmask: Bitmask, row: int) -> None:
        """Set a row's bits: 1 for each token that is allowed next, or for every token once terminated."""
        bitmask[row] = -1 if self.is_terminated() else self.masks.bitmask_row(self.states[-1])

    def is_terminated(self) -> bool:
        """Return whether an end-of-text token has ended the text."""
        return self.states[-1] == TERMINATED
