"""Decides when a request ends. (vLLM: `check_stop` in `v1/core/sched/utils.py`.)"""

from mini_vllm.core.request import Request, RequestStatus


def check_stop(request: Request, max_model_len: int) -> bool:
    """If a request's newest token ends it, set its final status and return True.

    If a stop token and a length limit apply to the same token, the stop token takes precedence. A stop token before
    output token number `min_tokens` does not end the request. Stop strings are found later, in the text
    (`detokenizer.py`).
    """
    token_id = request.all_token_ids[-1]
    params, num_tokens = request.sampling_params, len(request.all_token_ids)
    num_output_tokens = num_tokens - request.num_prompt_tokens
    may_stop = num_output_tokens >= params.min_tokens
    if may_stop and token_id in request.eos_token_ids and not params.ignore_eos:
        request.finish(RequestStatus.FINISHED_STOPPED)
        return True
    if may_stop and token_id in params.stop_token_ids:
        request.finish(RequestStatus.FINISHED_STOPPED, stop_reason=token_id)
        return True
    if num_tokens >= max_model_len or num_output_tokens >= params.max_tokens:
        request.finish(RequestStatus.FINISHED_LENGTH_CAPPED)
        return True
    return False
