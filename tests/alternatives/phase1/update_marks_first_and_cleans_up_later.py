"""Collects what is kept in one pass, frees who is over in a second, and deletes from `running` backwards."""

from mini_vllm.core.interfaces import KVCacheManager
from mini_vllm.core.request import Request
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.core.stopping import check_stop


def update_from_output(
    scheduler_output: SchedulerOutput,
    sampled_token_ids: dict[str, list[int]],
    requests: dict[str, Request],
    running: list[Request],
    *,
    max_model_len: int,
    kv: KVCacheManager,
) -> dict[str, list[int]]:
    served = [
        (requests[request_id], sampled_token_ids[request_id])
        for request_id in scheduler_output.num_scheduled_tokens
        if request_id in requests and sampled_token_ids.get(request_id)
    ]
    kept = {request.request_id: keep(request, token_ids, max_model_len) for request, token_ids in served}
    for request, _ in served:
        if request.is_finished:
            kv.free(request, request.num_computed_tokens)
    for index in reversed(range(len(running))):
        if running[index].is_finished:
            del running[index]
    return kept


def keep(request: Request, token_ids: list[int], max_model_len: int) -> list[int]:
    kept: list[int] = []
    while len(kept) < len(token_ids) and not request.is_finished:
        kept.append(token_ids[len(kept)])
        request.all_token_ids.append(kept[-1])
        check_stop(request, max_model_len)
    return kept
