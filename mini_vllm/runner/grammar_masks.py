"""Masks the logits of tokens that grammars forbid, including in the rows after drafts. (vLLM: `apply_grammar_bitmask`.)

The runner advances grammars according to the requests' tokens. The grammars therefore stay correct while a step is in
flight, after a preemption and after a failed step.
"""

import numpy as np
import torch
from torch import Tensor

from mini_vllm.core.cdiv import cdiv
from mini_vllm.electives.grammar import DEAD_END, Bitmask, StructuredOutputFunctions, fill_after_drafts, follow
from mini_vllm.runner.logits_processors import Rows

MAX_KEPT_BYTES = 32 << 20  # enough for 5,457 masks of the embedded model's 1,537 tokens


class GrammarMasks:
    """Masks the logits of each step. Most masks recur, so each is cached as a row to add to the logits."""

    def __init__(self, functions: StructuredOutputFunctions) -> None:
        self.functions = functions
        self._kept: dict[bytes, Tensor] = {}  # [vocab] for each mask: 0 for an allowed token, minus infinity otherwise

    def apply(self, rows: Rows, logits: Tensor) -> tuple[Tensor, dict[str, str]]:
        """Return logits [S, vocab] with forbidden tokens at minus infinity, and the errors keyed by request id.

        The logits are a copy, or `logits` itself if no request has a grammar. Rows of a request with an error are not
        masked: their tokens must not be used.
        """
        if all(one.request.grammar is None for one, _ in rows):
            return logits, {}
        bitmask, errors = self._fill(rows, cdiv(logits.shape[1], 32))
        masks = bitmask.view(f"V{bitmask[0].nbytes}")[:, 0].tolist()  # the number of bytes in each row
        try:
            added = [self._kept[mask] for mask in masks]
        except KeyError:
            for row, mask in enumerate(masks):
                if not any(mask):  # an empty mask is never cached, so it is always detected here
                    errors.setdefault(rows[row][0].request.request_id, DEAD_END)
                    masks[row] = b"\xff" * len(mask)
            self._keep(masks, logits)
            added = [self._kept[mask] for mask in masks]
        return torch.stack(added).add_(logits), errors

    def _fill(self, rows: Rows, num_words: int) -> tuple[Bitmask, dict[str, str]]:
        """Return a mask for each row [S, num_words] (all ones without a grammar), and the errors keyed by request
        id."""
        bitmask, errors = np.full((len(rows), num_words), -1, dtype=np.int32), dict[str, str]()
        for row, (scheduled, num_drafts) in enumerate(rows):
            request = scheduled.request
            if num_drafts or request.grammar is None:  # a request's draft rows come after its first row
                continue
            try:
                grammar = request.compiled_grammar()
                follow(grammar, request)
                fill_after_drafts(grammar, request.request_id, scheduled.draft_token_ids, bitmask, row)
            except ValueError as error:
                errors[request.request_id] = str(error)
        return bitmask, errors

    def _keep(self, masks: list[bytes], logits: Tensor) -> None:
        """Compute and cache the rows that masks add to logits. A full cache is emptied first."""
        new = dict.fromkeys(mask for mask in masks if mask not in self._kept)
        if (len(self._kept) + len(new)) * logits[0].nbytes > MAX_KEPT_BYTES:
            self._kept, new = {}, dict.fromkeys(masks)
        added = logits.new_zeros(len(new), logits.shape[1])
        bitmask = torch.frombuffer(bytearray().join(new), dtype=torch.int32).view(len(new), -1)
        self.functions.apply_bitmask(added, bitmask.to(logits.device), range(len(new)))
        self._kept |= zip(new, added, strict=True)
