"""Update with a helper and slices, freeing at the end."""

from mini_vllm.core.stopping import check_stop


def update_from_output(scheduler_output, sampled_token_ids, requests, running, *, max_model_len, kv):
    """Append the sampled tokens, finish the requests that stop, and free their blocks.

    Goes through the requests in the order of the plan and skips those that are no longer in `requests`.
    Returns request id to the tokens that were kept: none behind a stop.
    """

    def take(request, tokens):
        for index, token in enumerate(tokens):
            request.all_token_ids.append(token)
            if check_stop(request, max_model_len):
                return tokens[: index + 1]
        return tokens

    kept, done = {}, []
    for rid in scheduler_output.num_scheduled_tokens:
        if rid in requests and sampled_token_ids.get(rid, []):
            kept[rid] = take(requests[rid], sampled_token_ids[rid])
            if requests[rid].is_finished:
                done.append(requests[rid])
    for request in done:
        kv.free(request, request.num_computed_tokens)
        if request in running:
            running.remove(request)
    return kept
