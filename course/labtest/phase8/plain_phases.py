"""Other phases as far as the small engine needs them: memory is never short, and no request is refused."""

from collections.abc import Sequence

from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, Preemption, RequestQueue
from mini_vllm.core.request import Request
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.core.stopping import check_stop


def plain_schedule(
    running: list[Request],
    waiting: RequestQueue,
    *,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    kv: KVCacheManager,
    preemption: Preemption,
    chunks: ChunkPolicy,
) -> SchedulerOutput:
    """Give tokens to the requests that run, in order, then to those that wait."""
    plan = SchedulerOutput(max_num_batched_tokens)
    served = 0
    while plan.token_budget > 0 and (served < len(running) or waiting):
        if served == len(running):
            running.append(waiting.pop_request())
        request = running[served]
        served += 1
        num_new = chunks.num_new_tokens(request, request.num_computed_tokens, plan.token_budget)
        if num_new > 0:
            kv.allocate_slots(request, num_new)
            request.admit(request.num_computed_tokens)
            plan.num_scheduled_tokens[request.request_id] = num_new
            plan.token_budget -= num_new
    return plan


def plain_update(
    scheduler_output: SchedulerOutput,
    sampled_token_ids: dict[str, list[int]],
    requests: dict[str, Request],
    running: list[Request],
    *,
    max_model_len: int,
    kv: KVCacheManager,
) -> dict[str, list[int]]:
    """Append what was sampled, token by token, up to a stop."""
    kept: dict[str, list[int]] = {}
    for name, token_ids in sampled_token_ids.items():
        request = requests.get(name)
        for token_id in token_ids if request is not None else []:
            assert request is not None
            request.all_token_ids.append(token_id)
            kept.setdefault(name, []).append(token_id)
            if check_stop(request, max_model_len):
                kv.free(request, request.num_computed_tokens)
                if request in running:
                    running.remove(request)
                break
    return kept


class CountedDrafts:
    """Drafts in the request's counters, for a drafter without a KV cache."""

    def num_lookahead_tokens(self, request: Request) -> int:
        return 0

    def usable_hit_blocks(self, hit_blocks: list[int]) -> list[int]:
        return hit_blocks

    def schedule_drafts(self, request: Request) -> list[int]:
        known = request.num_tokens + request.num_output_placeholders
        places = range(known, request.num_computed_tokens)
        drafts = [draft for draft, _ in zip(request.spec_token_ids, places, strict=False)]
        request.spec_token_ids = []
        return drafts

    def roll_back(self, request: Request, num_draft_tokens: int, num_sampled_tokens: int) -> None:
        for _ in range(1 + num_draft_tokens - num_sampled_tokens):
            request.num_computed_tokens -= request.num_computed_tokens > 0
            request.num_output_placeholders -= request.num_output_placeholders > 0


def accept_up_to_the_first_wrong(draft_token_ids: Sequence[int], sampled_token_ids: Sequence[int]) -> list[int]:
    """Return the sampled tokens that follow right drafts, and the first one that does not."""
    num_right = 0
    while num_right < len(draft_token_ids) and draft_token_ids[num_right] == sampled_token_ids[num_right]:
        num_right += 1
    return list(sampled_token_ids[: num_right + 1])
