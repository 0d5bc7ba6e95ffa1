"""Calls that fair files answer differently: what they must agree in is the answer."""

import ctypes
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from classroom.worker.device import on_a_device


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


def hash_or_refusal(hash_block: Callable[..., bytes], parent: bytes, tokens: Sequence[int], *keys: Any) -> bytes:
    """Return a hash, which is the same in another process.

    What is no text may be refused, which tells it from all others: it gets a hash of its own.
    """
    try:
        found = hash_block(parent, tokens, *keys)
        in_another = hash_block(parent, tokens, *(tuple(map(from_another_process, one)) for one in keys))
    except ValueError:
        if all(is_text(key) for one in keys for key in one):
            raise
        return sha256(repr([parent, [*tokens], *map(list, keys)]).encode()).digest()
    return found if found == in_another else b"another one in each process"


def from_another_process(key: str | None) -> str | None:
    """Return an equal text whose `hash` is what another process may have for it.

    Python keeps that number in the text, after its header and its length, once it has been asked for.
    """
    if key is None or len(key) < 2:  # of a single character there is one object
        return key
    text = "".join([*key])
    known, kept = (
        hash(text),
        ctypes.c_ssize_t.from_address(id(text) + object.__basicsize__ + ctypes.sizeof(ctypes.c_ssize_t)),
    )
    if kept.value == known:
        kept.value = hash(f"{text} elsewhere")
    return text


def is_text(key: str | None) -> bool:
    """Return whether a key is a text that can be written down: halves of characters are none."""
    return key is None or key.encode("utf-8", "ignore").decode() == key
