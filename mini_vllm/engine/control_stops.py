"""Stop strings that are control tokens, such as `<|im_end|>`: no text holds them, so the token is what to look for."""

from collections.abc import Mapping
from dataclasses import replace

from mini_vllm.sampling_params import SamplingParams


def with_control_stops(params: SamplingParams, control_tokens: Mapping[str, int]) -> SamplingParams:
    """Return params that also stop at the control tokens that `stop` names.

    Raises `ValueError` for a stop string that has a control token within it, because no text could hold it.
    """
    for stop in params.stop:
        inside = [name for name in control_tokens if name and name in stop]
        if inside and stop not in control_tokens:
            raise ValueError(
                f"stop {stop!r} has the control token {max(inside, key=len)!r} within it: no text holds a control "
                f"token, so it would never be found. Name the control token alone"
            )
    found = tuple(control_tokens[stop] for stop in params.stop if stop in control_tokens)
    return replace(params, stop_token_ids=(*params.stop_token_ids, *found)) if found else params
