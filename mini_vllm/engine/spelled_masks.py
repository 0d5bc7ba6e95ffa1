"""Phase 9's masks for vocabularies that lack some bytes: WordPiece, Unigram, and byte-level ones without their
alphabet."""

from typing import Any

from mini_vllm.electives.automaton import START, TERMINATED
from mini_vllm.electives.grammar import Bitmask


def spelled(masks: Any) -> Any:
    """Return masks without the tokens that lead to a dead end, where the vocabulary cannot spell the next bytes.

    Raises `ValueError` if the tokens cannot spell any matching text.
    """
    next_states = {START: frozenset(masks.next_states(START).values())}
    to_visit = [START]
    while to_visit:
        for state in next_states[to_visit.pop()] - next_states.keys() - {TERMINATED}:
            next_states[state] = frozenset(masks.next_states(state).values())
            to_visit.append(state)
    alive = {TERMINATED}
    while found := {state for state, after in next_states.items() if state not in alive and after & alive}:
        alive |= found
    if START not in alive:
        raise ValueError("structured_outputs cannot be compiled: the model's tokenizer cannot spell any matching text")
    return masks if alive >= next_states.keys() else SpelledMasks(masks, frozenset(alive))


class SpelledMasks:
    """Masks that exclude tokens leading to a state outside `alive`."""

    def __init__(self, masks: Any, alive: frozenset[int]) -> None:
        self.masks, self.alive = masks, alive
        self._rows: dict[int, Bitmask] = {}

    def next_states(self, state: int) -> dict[int, int]:
        return {token_id: after for token_id, after in self.masks.next_states(state).items() if after in self.alive}

    def bitmask_row(self, state: int) -> Bitmask:
        if state not in self._rows:
            row = self.masks.bitmask_row(state).copy()
            bits = row.view("u4")
            for token_id in self.masks.next_states(state).keys() - self.next_states(state).keys():
                bits[token_id // 32] &= ~(1 << token_id % 32) & 0xFFFF_FFFF
            self._rows[state] = row
        return self._rows[state]
