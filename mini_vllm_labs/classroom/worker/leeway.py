"""Normalises answers that may legitimately differ between files."""

from collections.abc import Callable, Sequence
from typing import Any

from mini_vllm_labs.classroom.worker.device import on_a_device


def tokens_drawn(sample: Callable[..., Any], logits: Any, params: Sequence[Any], draws: Sequence[float]) -> Any:
    """Return a sampler's tokens; in rows with top-k or top-p, tied tokens are mapped as if ordered by id.

    A file may order tied tokens in any way. In rows with equal logits and settings, the token that comes first reveals
    the file's order.
    """
    found = on_a_device(sample, logits, params, draws)
    if not isinstance(found, list) or not all(type(one) is int and 0 <= one < logits.shape[1] for one in found):
        return found
    orders, tokens = dict[str, list[int]](), list(found)
    for number, (token, row, settings) in enumerate(zip(found, logits, params, strict=False)):
        tied = (row == row[token]).nonzero().flatten().tolist()
        if len(tied) > 1 and (settings.top_k or settings.top_p < 1):
            order = orders.setdefault(f"{settings} {row.tolist()}", [])
            order += [token] * (token not in order)
            tokens[number] = tied[order.index(token)]
    return found if tokens == found else tokens
