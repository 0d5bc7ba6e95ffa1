"""Checks within one step that are cheap enough to run in every step.

Each check raises an `InvariantError` that reports the numbers involved.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from mini_vllm.core.interfaces import KVCacheManager
from mini_vllm.core.request import Request
from mini_vllm.core.scheduler_parts import Sampled
from mini_vllm.core.step import ScheduledRequest, SchedulerOutput


class InvariantError(AssertionError):
    """The engine's state is inconsistent: a bug in one of its parts, not in the input.

    `request_ids` are the requests that the error concerns; empty if it may concern every request in the step.
    """

    def __init__(self, message: str, request_ids: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.request_ids = list(request_ids)


def check_batch(
    scheduler_output: SchedulerOutput,
    batch: Sequence[ScheduledRequest],
    kv: KVCacheManager,
    has_stand_ins: Collection[str],
) -> None:
    """Check that a batch matches its plan: each request's next tokens, in its blocks.

    The shares of requests in `has_stand_ins` are shorter than planned, because their drafts are placeholders.
    """
    planned, block_ids = scheduler_output.num_scheduled_tokens, kv.block_ids
    if len(batch) != len(planned):
        raise InvariantError(_different_rows(planned, batch))
    for row, (request_id, num_tokens) in zip(batch, planned.items(), strict=True):
        request = row.request
        end = row.num_computed_tokens + row.num_scheduled_tokens
        if (  # a single condition, because it is almost always False
            request.request_id != request_id
            or (row.num_scheduled_tokens != num_tokens and request_id not in has_stand_ins)
            or (end != request.num_computed_tokens and request_id not in has_stand_ins)
            or (row.block_ids != block_ids(request_id) and not row.block_tables)
        ):
            raise InvariantError(_difference(row, request_id, num_tokens, block_ids(request_id)))


def check_samples(batch: Sequence[ScheduledRequest]) -> None:
    """Check that a request samples in the step that computes its last known token, and in no other step."""
    for row in batch:
        num_tokens, end = len(row.request.all_token_ids), row.num_computed_tokens + row.num_scheduled_tokens
        if row.needs_token != (end >= num_tokens):
            samples = "samples" if row.needs_token else "does not sample"
            raise InvariantError(
                f"{row.request.request_id} has {num_tokens} known tokens, computes up to token {end}, and {samples}"
            )


def check_hit(
    request: Request,
    block_ids: Sequence[int],
    recorded: Mapping[int, bytes],
    cached_blocks: Callable[[], Mapping[int, bytes]],
    num_null: int = 0,
) -> None:
    """Check that each block of a hit, after its first `num_null` blocks, has the hash of the request's own prefix.

    `recorded` maps blocks to hashes. If `recorded` does not confirm the hit, the slower `cached_blocks` is consulted.
    """
    hashes, found = request.block_hashes[: len(block_ids)], block_ids
    if num_null:
        hashes, found = hashes[num_null:], found[num_null:]
    if [*map(recorded.get, found)] == hashes:
        return
    cached = cached_blocks()
    for block_id, block_hash in zip(found, hashes, strict=False):
        if cached.get(block_id) != block_hash:
            holds = "a different prefix" if block_id in cached else "no cached prefix"
            raise InvariantError(
                f"{request.request_id} is admitted with the cache hit {list(block_ids)}, but block {block_id} "
                f"holds {holds}"
            )


def check_kept(
    requests: Mapping[str, Request],
    num_tokens_before: Mapping[str, int],
    sampled: Sampled,
    kept: Sampled,
    *,
    may_drop: bool,
) -> None:
    """Check that an update appended each request's sampled tokens, up to a stop, and returned the same tokens.

    With `may_drop` a preempted request may lose all its sampled tokens, because newer releases drop tokens after a
    reset.
    """
    for request_id, before in num_tokens_before.items():
        request, answer = requests[request_id], sampled[request_id]
        new = request.all_token_ids[before:]
        returned = list(kept.get(request_id, ()))  # a learner's code may return tuples
        if not new == returned == answer:  # they are almost always equal
            is_dropped = may_drop and request.num_preemptions > 0 and not new
            is_over = request.is_finished or is_dropped
            if new != returned or new != answer[: len(new)] or not is_over:
                raise InvariantError(
                    f"the runner returned {answer} for {request_id}, but the update step appended {new} and "
                    f"returned {returned}"
                )
        limit = request.num_prompt_tokens + request.sampling_params.max_tokens
        if len(request.all_token_ids) > limit:
            raise InvariantError(
                f"{request_id} has {request.num_output_tokens} output tokens, but max_tokens is "
                f"{request.sampling_params.max_tokens}",
                request_ids=[request_id],
            )


def _different_rows(planned: Mapping[str, int], batch: Sequence[ScheduledRequest]) -> str:
    rows = {row.request.request_id for row in batch}
    lost, extra = sorted(planned.keys() - rows), sorted(rows - planned.keys())
    found = f"{len(planned)} requests are planned and the batch has {len(batch)} rows"
    return found + f", none of {', '.join(lost)}" * bool(lost) + f", one of {', '.join(extra)}" * bool(extra)


def _difference(row: ScheduledRequest, request_id: str, num_tokens: int, block_ids: Sequence[int]) -> str:
    request, begin, end = row.request, row.num_computed_tokens, row.num_computed_tokens + row.num_scheduled_tokens
    due = request.num_computed_tokens
    if request.request_id != request_id:
        return f"the batch has a row of {request.request_id} in place of {request_id}"
    if row.num_scheduled_tokens != num_tokens or end != due:
        return f"tokens {due - num_tokens} to {due - 1} of {request_id} are planned, its row has {begin} to {end - 1}"
    return f"{request_id} holds the blocks {block_ids}, its row has {row.block_ids}"
