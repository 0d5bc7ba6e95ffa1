"""How likely a prompt's own tokens are, as benchmarks ask by `echo` with `logprobs`.

The engine reports logprobs of sampled tokens only, by the model's own logits. So each token of the prompt is sampled,
after the tokens before it, with a bias that leaves it no rival. All but the last block of those is in the prefix cache
once the longest request has been computed; without that cache it is a whole prompt for each token.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from uuid import uuid4

from mini_vllm.outputs import TokenLogprobs
from mini_vllm.sampling_params import SamplingParams
from serving.errors import engine_error, error_of_engine, invalid
from serving.served_model import ServedModel

BIAS, MAX_AT_ONCE = 100.0, 32


async def logprobs_of_prompt(
    served: ServedModel,
    token_ids: Sequence[int],
    num_likeliest: int,
    cache_salt: str | None,
    priority: int,
    adapter_id: str | None,
) -> list[TokenLogprobs | None]:
    """Return the logprobs of each token; None for the first, which follows nothing. Raises `ApiError`."""
    places, name = asyncio.Semaphore(MAX_AT_ONCE), f"prompt-{uuid4().hex}"

    async def ask(length: int) -> TokenLogprobs | None:
        bias = {token_ids[length]: BIAS}
        params = SamplingParams(1, ignore_eos=True, logit_bias=bias, logprobs=num_likeliest)
        async with (
            places,
            aclosing(
                served.llm.generate(
                    list(token_ids[:length]),
                    params,
                    f"{name}-{length}",
                    priority=priority,
                    cache_salt=cache_salt,
                    adapter_id=adapter_id,
                    timeout=served.settings.request_timeout,
                )
            ) as outputs,
        ):
            async for output in outputs:
                if output.error is not None:
                    raise engine_error(output.error)
                if output.outputs[0].token_ids == [token_ids[length]] and output.outputs[0].logprobs:
                    return output.outputs[0].logprobs[0]
        raise invalid(f"token {length} of the prompt is too unlikely to be scored", "prompt")

    try:
        longest = [await ask(len(token_ids) - 1)] if len(token_ids) > 1 else []
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(ask(length)) for length in range(1, len(token_ids) - 1)]
    except* Exception as errors:
        error = errors.exceptions[0]
        assert isinstance(error, Exception)
        raise error_of_engine(error, "prompt") from error
    return [None, *(task.result() for task in asked), *longest]
