"""Sample divides the logits in place."""

from collections.abc import Sequence

from torch import Tensor

from mini_vllm.sampling_params import SamplingParams


def _sample_row(logits: Tensor, params: SamplingParams, number: float) -> int:
    logits = logits.double()
    logits /= params.temperature
    probabilities, token_ids = logits.softmax(dim=-1).sort(descending=True, stable=True)
    if params.top_k:
        probabilities = probabilities[: params.top_k] / probabilities[: params.top_k].sum()
    reached = probabilities.cumsum(dim=-1)
    num_kept = int((reached < params.top_p).sum()) + 1
    reached = reached[:num_kept] / reached[:num_kept][-1]
    return int(token_ids[min(int((reached <= number).sum()), len(reached) - 1)])


def sample(logits: Tensor, params: Sequence[SamplingParams], draws: Sequence[float]) -> list[int]:
    """Choose one token per row of `logits` [S, vocab]. `draws` are numbers from 0 to 1, one per row.

    Temperature 0 takes the likeliest token. Otherwise: divide by the temperature, keep the `top_k`
    likeliest, of those keep the fewest whose probabilities reach `top_p`, and walk through what is kept
    from the likeliest on until the probabilities add up to more than the draw. After each of the two
    cuts what is kept is scaled to add up to 1.
    """
    greedy = logits.argmax(dim=-1).tolist() if len(params) else []
    return [
        token if row_params.temperature == 0 else _sample_row(row, row_params, number)
        for token, row, row_params, number in zip(greedy, logits, params, draws, strict=True)
    ]
