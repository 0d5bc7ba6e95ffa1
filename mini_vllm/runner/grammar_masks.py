"""What grammars change in a step: logits of tokens that they forbid, and drafts. (vLLM: `apply_grammar_bitmask`.)

The runner moves grammars on, by the tokens that it finds in the requests: so they are right with a step in flight,
after a preemption, and after a step that failed.
"""

import numpy as np
import torch
from torch import Tensor

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.grammar import DEAD_END, Bitmask, StructuredOutputFunctions, follow, masks_after_drafts
from mini_vllm.runner.logits_processors import Rows

MAX_KEPT_BYTES = 32 << 20  # 5,457 masks of the embedded model's 1,537 tokens


class GrammarMasks:
    """Masks the logits of steps. Most masks come again in a later step, so each is kept as what it adds to a row."""

    def __init__(self, functions: StructuredOutputFunctions) -> None:
        self.functions = functions
        self._kept: dict[bytes, Tensor] = {}  # [vocab] by the bits of a mask: 0, or minus infinity
        self._bitmask: Bitmask = np.empty((1, 0), dtype=np.int32)  # one row, into which grammars write

    def apply(self, rows: Rows, logits: Tensor) -> tuple[Tensor, dict[str, str]]:
        """Return logits [S, vocab] with minus infinity where a grammar forbids a token, and errors by request id.

        The logits are a copy, or `logits` itself if no request has a grammar. Rows of a request with an error are not
        masked: their tokens must not be used.
        """
        if all(one.request.grammar is None for one, _ in rows):
            return logits, {}
        masks, errors = self._masks(rows, cdiv(logits.shape[1], 32))
        try:
            added = [self._kept[mask] for mask in masks]
        except KeyError:
            self._keep(masks, logits)
            added = [self._kept[mask] for mask in masks]
        return torch.stack(added).add_(logits), errors

    def _masks(self, rows: Rows, num_words: int) -> tuple[list[bytes], dict[str, str]]:
        """Return the bits of each row's mask, all ones where no grammar is, and errors by request id."""
        if self._bitmask.shape[1] != num_words:
            self._bitmask = np.empty((1, num_words), dtype=np.int32)
        all_allowed, nothing_allowed = b"\xff" * 4 * num_words, bytes(4 * num_words)
        masks, errors = list[bytes](), dict[str, str]()
        for scheduled, num_drafts in rows:
            if num_drafts:  # its mask came with the row before the drafts
                continue
            request, own = scheduled.request, list[bytes]()
            if request.grammar is not None:
                try:
                    grammar = request.compiled_grammar()
                    follow(grammar, request)
                    own = masks_after_drafts(grammar, request.request_id, scheduled.draft_token_ids, self._bitmask)
                except ValueError as error:
                    errors[request.request_id] = str(error)
                if nothing_allowed in own:
                    errors[request.request_id], own = DEAD_END, []
            masks += own
            masks += [all_allowed] * (1 + len(scheduled.draft_token_ids) - len(own))
        return masks, errors

    def _keep(self, masks: list[bytes], logits: Tensor) -> None:
        """Work out what masks add to a row of logits. What is kept is forgotten when it becomes too much."""
        new = dict.fromkeys(mask for mask in masks if mask not in self._kept)
        if (len(self._kept) + len(new)) * logits[0].nbytes > MAX_KEPT_BYTES:
            self._kept, new = {}, dict.fromkeys(masks)
        added = logits.new_zeros(len(new), logits.shape[1])
        bitmask = torch.frombuffer(bytearray().join(new), dtype=torch.int32).view(len(new), -1)
        self.functions.apply_bitmask(added, bitmask.to(logits.device), range(len(new)))
        self._kept |= zip(new, added, strict=True)
