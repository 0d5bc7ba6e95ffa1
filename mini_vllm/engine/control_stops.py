"""Finds stop strings that are control tokens, such as `<|im_end|>`, by their ids, because output text never contains
them."""

from collections.abc import Mapping
from dataclasses import replace

from mini_vllm.sampling_params import SamplingParams


def with_control_stops(params: SamplingParams, control_tokens: Mapping[str, int]) -> SamplingParams:
    """Return params that also stop at the control tokens named in `stop`.

    Raises `ValueError` for a stop string that contains both a control token and other text, because no text could match
    it.
    """
    for stop in params.stop:
        inside = [name for name in control_tokens if name and name in stop]
        if inside and stop not in control_tokens:
            raise ValueError(
                f"stop {stop!r} contains the control token {max(inside, key=len)!r}. Text never contains control "
                "tokens, so this stop would never be found. Use the control token on its own"
            )
    found = tuple(control_tokens[stop] for stop in params.stop if stop in control_tokens)
    return replace(params, stop_token_ids=(*params.stop_token_ids, *found)) if found else params
