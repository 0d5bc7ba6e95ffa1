"""Update trims its own copy of the sampled list."""

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
    """Append the sampled tokens, finish the requests that stop, and free their blocks.

    Goes through the requests in the order of the plan and skips those that are no longer in `requests`.
    Returns request id to the tokens that were kept: none behind a stop.
    """
    kept: dict[str, list[int]] = {}
    for request_id in scheduler_output.num_scheduled_tokens:
        request = requests.get(request_id)
        new_token_ids = list(sampled_token_ids.get(request_id, ()))
        if request is None or not new_token_ids:
            continue
        for index, token_id in enumerate(new_token_ids):
            request.all_token_ids.append(token_id)
            if check_stop(request, max_model_len):
                del new_token_ids[index + 1 :]
                kv.free(request, request.num_computed_tokens)
                break
        kept[request_id] = new_token_ids
    running[:] = [request for request in running if not request.is_finished]
    return kept
