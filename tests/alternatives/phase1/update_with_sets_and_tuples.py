"""Remembers finished ids in a set, returns tuples, and removes requests from `running` one by one."""

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
) -> dict[str, tuple[int, ...]]:
    finished: set[str] = set()
    answer: dict[str, tuple[int, ...]] = {}
    for request_id in scheduler_output.num_scheduled_tokens:
        if request_id not in requests or not sampled_token_ids.get(request_id):
            continue
        request = requests[request_id]
        kept: tuple[int, ...] = ()
        for token_id in sampled_token_ids[request_id]:
            kept = (*kept, token_id)
            request.all_token_ids += [token_id]
            if check_stop(request, max_model_len):
                finished.add(request_id)
                break
        answer[request_id] = kept
        if request_id in finished:
            kv.free(request, request.num_computed_tokens)
            if request in running:
                running.remove(request)
    return answer
