"""What is done with phase 7's functions outside of an engine. Requests come as plain numbers."""

from collections import Counter
from typing import Any

from classroom.worker.drivers.attempt import Result
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import ScheduledRequest


def request_of(
    num_prompt: int, num_output: int, num_computed: int, num_placeholders: int, drafts: list[int], status: int
) -> Request:
    """Return a request in a given state."""
    request = Request("r", [7] * num_prompt)
    request.all_token_ids.extend([8] * num_output)
    request.num_computed_tokens, request.num_output_placeholders = num_computed, num_placeholders
    request.spec_token_ids, request.status = list(drafts), RequestStatus(status)
    return request


def state_of(request: Request) -> list[Any]:
    """Return what phase 7 may change of a request, and what it may not."""
    counters = [request.num_computed_tokens, request.num_output_placeholders, request.num_tokens]
    return [*counters, [int(token) for token in request.spec_token_ids], int(request.status)]


def propose_by_lookup(file: Any, cases: list[tuple[list[int], int, int, int]]) -> Result:
    """Return the drafts of each text, and the text, which may not change. Looked at when all are there."""
    found = [file.propose_by_lookup(*case) for case in cases]
    return [[[int(token) for token in drafts], case[0]] for drafts, case in zip(found, cases, strict=True)]


def schedule_drafts(file: Any, cases: list[tuple[list[Any], int, bool]]) -> Result:
    """Take the drafts of each request; return them, its state, and the list of drafts that it had before."""
    speculations = [file.SpeculativeScheduling(most, has_kv_cache) for _, most, has_kv_cache in cases]
    answers = Result()
    for speculation, (state, *_) in zip(speculations, cases, strict=True):
        request = request_of(*state)
        before = request.spec_token_ids
        drafts = speculation.schedule_drafts(request)
        answers.append([[int(token) for token in drafts], state_of(request), list(before)])
    return answers


def roll_back(file: Any, cases: list[tuple[list[Any], int, int]]) -> Result:
    """Take rejected drafts back from each request; return its state."""
    answers = Result()
    for state, num_drafts, num_sampled in cases:
        request = request_of(*state)
        file.SpeculativeScheduling(8, False).roll_back(request, num_drafts, num_sampled)
        answers.append(state_of(request))
    return answers


def drafter_slots(file: Any, cases: list[tuple[list[Any], int, bool, list[int]]]) -> Result:
    """Return the lookahead slots and the usable part of a hit, for each request; nothing else may change."""
    speculations = [file.SpeculativeScheduling(most, has_kv_cache) for _, most, has_kv_cache, _ in cases]
    answers = Result()
    for speculation, (state, _, _, hits) in zip(speculations, cases, strict=True):
        request = request_of(*state)
        found = [int(speculation.num_lookahead_tokens(request)), list(speculation.usable_hit_blocks(hits))]
        answers.append([*found, hits, state_of(request)])
    return answers


def logits_rows(file: Any, cases: list[list[tuple[int, int, list[int], bool]]]) -> Result:
    """Return the rows of each batch, given as computed tokens, scheduled tokens, drafts and whether one samples."""
    request = request_of(50, 0, 0, 0, [], RequestStatus.RUNNING)
    batches = [
        [ScheduledRequest(request, computed, n, [1], samples, drafts) for computed, n, drafts, samples in batch]
        for batch in cases
    ]
    found = [file.select_logits_rows(batch) for batch in batches]
    return [[int(row) for row in rows] for rows in found]


def accept_drafts(file: Any, cases: list[tuple[list[int], list[int]]]) -> Result:
    """Return the tokens that are kept, and the arguments, which may not change and are not handed out."""
    answers = Result()
    for drafts, sampled in cases:
        kept = file.accept_drafts(drafts, sampled)
        answers.append([[int(token) for token in kept], drafts, sampled, kept is drafts or kept is sampled])
    return answers


def rejection_sample(file: Any, cases: list[tuple[list[int], list[Any], list[Any], list[float], int, int]]) -> Result:
    """Return how often each list of tokens comes out of each case, over an even grid of draws for the last token.

    In which order the tokens share the numbers from 0 to 1 is free, so a single draw decides nothing. Only the row that
    the last token is drawn in gets the draws of the grid.
    """
    import torch

    answers = Result()
    for drafts, draft_probs, target_probs, keeps, last_row, grid in cases:
        shape = (-1, len(target_probs[0]))
        tensors = [torch.tensor(rows, dtype=torch.float64).reshape(shape) for rows in (draft_probs, target_probs)]
        before = [tensor.clone() for tensor in tensors]
        counts: Counter[tuple[int, ...]] = Counter()
        for cell in range(grid):
            choice = (cell + 0.5) / grid
            draws = [(keep, choice if row == last_row else 0.5) for row, keep in enumerate(keeps)]
            counts[tuple(int(token) for token in file.rejection_sample(drafts, *tensors, draws))] += 1
        is_unchanged = all(bool(torch.equal(one, other)) for one, other in zip(tensors, before, strict=True))
        answers.append([sorted([list(tokens), count] for tokens, count in counts.items()), drafts, is_unchanged])
    return answers
