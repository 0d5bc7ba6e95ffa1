"""Update: a generator of kept tokens."""

from mini_vllm.core.stopping import check_stop


def _kept(request, tokens, max_model_len):
    for token in tokens:
        request.all_token_ids.append(token)
        yield token
        if check_stop(request, max_model_len):
            return


def update_from_output(scheduler_output, sampled_token_ids, requests, running, *, max_model_len, kv):
    """Append the sampled tokens, finish the requests that stop, and free their blocks.

    Goes through the requests in the order of the plan and skips those that are no longer in `requests`.
    Returns request id to the tokens that were kept: none behind a stop.
    """
    kept = {
        request_id: list(_kept(requests[request_id], sampled_token_ids[request_id], max_model_len))
        for request_id in scheduler_output.num_scheduled_tokens
        if request_id in requests and sampled_token_ids.get(request_id)
    }
    for request_id in kept:
        if requests[request_id].is_finished:
            kv.free(requests[request_id], requests[request_id].num_computed_tokens)
    for index in reversed(range(len(running))):
        if running[index].is_finished:
            del running[index]
    return kept
