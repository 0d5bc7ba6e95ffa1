"""What grammars change in a step: logits of tokens that they forbid, and drafts. (vLLM: `apply_grammar_bitmask`.)

The runner moves grammars on, by the tokens that it finds in the requests: so they are right with a step in flight,
after a preemption, and after a step that failed.
"""

import numpy as np
import torch
from torch import Tensor

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.grammar import DEAD_END, StructuredOutputFunctions, fill_bitmask_rows, follow
from mini_vllm.runner.logits_processors import Rows


def mask_logits(functions: StructuredOutputFunctions, rows: Rows, logits: Tensor) -> tuple[Tensor, dict[str, str]]:
    """Return logits [S, vocab] with minus infinity where a grammar forbids a token, and errors by request id.

    The logits are a copy, or `logits` itself if no request has a grammar. Rows of a request with an error are not
    masked: their tokens must not be used.
    """
    chosen = [index for index, (one, _) in enumerate(rows) if one.request.grammar is not None]
    if not chosen:
        return logits, {}
    bitmask = np.full((len(chosen), cdiv(logits.shape[1], 32)), -1, dtype=np.int32)
    errors: dict[str, str] = {}
    for place, index in enumerate(chosen):
        scheduled, num_drafts = rows[index]
        request = scheduled.request
        if num_drafts == 0 and request.grammar is not None:
            try:
                grammar = request.grammar.result()
                follow(grammar, request.request_id, request.output_token_ids)
                fill_bitmask_rows(grammar, request.request_id, scheduled.draft_token_ids, bitmask, place)
            except ValueError as error:
                errors[request.request_id] = str(error)
    for place in np.flatnonzero(~bitmask.any(axis=1)).tolist():  # nothing is allowed
        errors[rows[chosen[place]][0].request.request_id] = DEAD_END
        bitmask[place] = -1
    masked = logits.clone()
    functions.apply_bitmask(masked, torch.from_numpy(bitmask).to(logits.device), chosen)
    return masked, errors
