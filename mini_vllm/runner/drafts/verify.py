"""Accepts drafts that the model has also sampled, or that rejection sampling accepts."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from mini_vllm.core.step import ScheduledRequest
from mini_vllm.electives.speculation import SpeculationFunctions
from mini_vllm.runner.draws import draw_twice
from mini_vllm.runner.logits_processors import Rows, probabilities


def verify_drafts(
    functions: SpeculationFunctions, rows: Rows, logits: Tensor, sampled_token_ids: Mapping[str, Sequence[int]]
) -> dict[str, list[int]]:
    """Return the tokens of requests with drafts: the accepted drafts, then one token from the model.

    `rows` and `logits` [S, vocab] are those of `PagedModelRunner.sample`.
    """
    kept = {}
    for index, (one, num_drafts_before) in enumerate(rows):
        if one.draft_token_ids and num_drafts_before == 0:
            rows_of_request = logits[index : index + len(one.draft_token_ids) + 1]
            sampled = sampled_token_ids[one.request.request_id]
            kept[one.request.request_id] = _accept(functions, one, rows_of_request, sampled)
    return kept


def _accept(
    functions: SpeculationFunctions, scheduled: ScheduledRequest, logits: Tensor, sampled: Sequence[int]
) -> list[int]:
    drafts, request = scheduled.draft_token_ids, scheduled.request
    if scheduled.draft_probs is None:
        return functions.accept_drafts(drafts, sampled)
    # Sampling uses a position's first random number, so acceptance uses the second.
    draws = [draw_twice(request, place)[::-1] for place in range(len(drafts) + 1)]
    target_probs = probabilities(logits, request.sampling_params)
    return functions.rejection_sample(drafts, scheduled.draft_probs, target_probs, draws)
