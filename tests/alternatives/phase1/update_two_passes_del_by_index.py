"""Update: two passes, del by index."""

from mini_vllm.core.stopping import check_stop


def update_from_output(scheduler_output, sampled_token_ids, requests, running, *, max_model_len, kv):
    """Append the sampled tokens, finish the requests that stop, and free their blocks.

    Goes through the requests in the order of the plan and skips those that are no longer in `requests`.
    Returns request id to the tokens that were kept: none behind a stop.
    """
    kept = {}
    for rid, _ in scheduler_output.num_scheduled_tokens.items():
        try:
            request = requests[rid]
            tokens = sampled_token_ids[rid]
        except KeyError:
            continue
        if len(tokens) == 0:
            continue
        count = 0
        for token in tokens:
            request.all_token_ids.append(int(token))
            count += 1
            if check_stop(request, max_model_len):
                kv.free(request, request.num_computed_tokens)
                break
        kept[rid] = tokens[0:count]
    alive = [r for r in running if not r.is_finished]
    running.clear()
    running.extend(alive)
    return kept
