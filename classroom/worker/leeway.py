"""Calls that fair files answer differently: what they must agree in is the answer."""

from collections.abc import Callable, Sequence
from typing import Any

from classroom.worker.device import on_a_device
from course.labtest.named_numbers import numbers_named

ABOUT_1_PERCENT = 0.006  # 87.5% may be named as 88%


def tokens_drawn(sample: Callable[..., Any], logits: Any, params: Sequence[Any], draws: Sequence[float]) -> Any:
    """Return the tokens of a sampler. In a row with a cut, equal tokens may have any order: they get that of the ids.

    The order of the file shows in rows with the same logits and settings: which of its tokens comes first.
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


def blocks_or_numbers(fit: Callable[..., int], total: int, free: int, share: float, block: int) -> dict[str, Any]:
    """Return how many blocks fit, or which of the numbers that decide an error names, whatever else it says."""
    try:
        return {"fit": fit(total, free, share, block)}
    except ValueError as error:
        named = numbers_named(str(error))
        names_share = any(abs(number - share) < ABOUT_1_PERCENT for number in named)
        names = {"all": total in named, "free or taken": bool({free, total - free} & named), "share": names_share}
        return {"ValueError that names": {**names, "block": block in named}}
