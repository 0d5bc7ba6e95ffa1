"""Update: removes each finished one at once and copies lists."""

from mini_vllm.core.stopping import check_stop


def update_from_output(scheduler_output, sampled_token_ids, requests, running, *, max_model_len, kv):
    """Append the sampled tokens, finish the requests that stop, and free their blocks.

    Goes through the requests in the order of the plan and skips those that are no longer in `requests`.
    Returns request id to the tokens that were kept: none behind a stop.
    """
    result: dict[str, list[int]] = {}
    for request_id in list(scheduler_output.num_scheduled_tokens):
        if request_id not in requests:
            continue
        tokens = list(sampled_token_ids.get(request_id) or ())
        if not tokens:
            continue
        request = requests[request_id]
        result[request_id] = []
        while tokens:
            token = tokens.pop(0)
            request.all_token_ids += [token]
            result[request_id].append(token)
            if check_stop(request, max_model_len):
                kv.free(request, request.num_computed_tokens)
                if request in running:
                    running.remove(request)
                break
    return result
