"""The seam of phase 9: a grammar follows a request's text and decides which tokens may come next."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mini_vllm.core.request import Grammar, Request
from mini_vllm.electives.automaton import Dfa, Nfa, TrieNode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bitmask = NDArray[np.int32]  # [rows, cdiv(vocab, 32)]: bit i of word w is for token 32 * w + i
else:
    Bitmask = Any  # importing this module must not load numpy

DEAD_END = "structured_outputs cannot be followed any further: the grammar allows no token"


@dataclass(frozen=True, slots=True)
class StructuredOutputFunctions:
    """Phase 9 as the engine and the runner use it.

    `make_masks` takes the DFA, the vocabulary as a trie, its size and the end-of-text tokens. `apply_bitmask` takes
    logits [S, vocab], a bitmask tensor [N, cdiv(vocab, 32)], and the N indices of the rows of logits to mask.
    """

    build_dfa: Callable[[Nfa, frozenset[int]], Dfa]
    make_masks: Callable[[Dfa, TrieNode, int, frozenset[int]], Any]
    make_grammar: Callable[[Any], Grammar]
    apply_bitmask: Callable[[Any, Any, Sequence[int]], None]


def follow(grammar: Grammar, request: Request, newest: Sequence[int] = ()) -> None:
    """Advance a grammar past a request's tokens and the `newest` tokens. Raises `ValueError` if the grammar forbids one
    of them.

    A failed step may have removed some of the request's tokens since the last call; the grammar is then rolled back.
    """
    num_missing = request.num_output_tokens + len(newest) - grammar.num_processed_tokens
    if num_missing < 0:
        grammar.rollback(-num_missing)
    elif num_missing:
        tokens = request.all_token_ids[-num_missing:]  # not a copy of all tokens, which would grow with the text
        if newest:
            tokens = [*tokens, *newest][-num_missing:]
        if not grammar.accept_tokens(request.request_id, tokens):
            if not grammar.is_terminated():  # a step planned ahead may compute tokens past the end
                raise ValueError(DEAD_END)


def fill_after_drafts(
    grammar: Grammar, request_id: str, draft_token_ids: Sequence[int], bitmask: Bitmask, row: int
) -> None:
    """Fill one row per draft and one after the last, starting at `row`; stop at the first rejected draft.

    The grammar ends in the state in which it started.
    """
    grammar.fill_bitmask(bitmask, row)
    num_accepted = 0
    for token_id in draft_token_ids:
        if not grammar.accept_tokens(request_id, [token_id]):
            break
        num_accepted += 1
        grammar.fill_bitmask(bitmask, row + num_accepted)
    if num_accepted:
        grammar.rollback(num_accepted)
