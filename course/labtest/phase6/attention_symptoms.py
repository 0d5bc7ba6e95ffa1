"""Mistakes of `paged_attention` that are visible in its numbers. Looked for only after a test has failed."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

NOWHERE = 1000
"""V of every slot that no request has written."""

LOOKS_OUTSIDE = (
    f"the {NOWHERE} of a slot that no request has written is part of your number: does this token see the null block, "
    "or slots after the tokens of its request?"
)
SEES_NOTHING = (
    "your token saw no key at all. In a mask of booleans, is True what may be seen or what is hidden? And does a token "
    "see itself?"
)
ANOTHER_HEAD = (
    "your number is what K/V head {head} holds. Which one does this query head read (rule 7), and which of your "
    "dimensions are heads, which are tokens?"
)
ANOTHER_END = "your number is the average over the first {seen} of its request's tokens. How many may it see?"
ANOTHER_PLACE = (
    "this is what query head {head} of token {token} in the row should get: in which order do you put the outputs "
    "together?"
)
NOT_FINITE = "your number is not finite. Does your mask hide every key, or is exp taken of scores that large?"
ANOTHER_LAYER = "your number follows from the K and V of the other layer's caches: what do you keep from call to call?"
ANOTHER_SCALE = "your numbers are those of the scale {used:g}; the argument is {scale}."
QUESTION = "which tokens may this one see, of which K/V head, and where do their K and V lie?"


def hint_of_scale(number: float, scale: float, head_dim: int) -> str:
    """Return a hint for what a token got whose q.k is 2 with the key of V = 1 and 0 with the key of V = 0."""
    for used in (1.0, head_dim**-0.5, scale * scale, scale * head_dim**-0.5):
        if used != scale and math.isclose(number, 1 / (1 + math.exp(-2 * used)), abs_tol=1e-3):
            return ANOTHER_SCALE.format(used=used, scale=scale) + " By which number do you multiply q.k?"
    return ""


def misplaced(yours: Tensor, expected: Tensor, token: int, head: int) -> str:
    """Return a hint if the vector is the one that another token or head should get."""
    is_same = torch.isclose(expected, yours[token, head].to(expected.dtype), rtol=1e-3, atol=1e-3).all(dim=-1)
    places = is_same.nonzero().tolist()
    return ANOTHER_PLACE.format(token=places[0][0], head=places[0][1]) if len(places) == 1 else ""


def hint_of_average(
    number: float, position: int, kv_head: int, averages: Mapping[tuple[int, int], float], largest: float
) -> str:
    """Return a hint for what a token got if all K are 0, or an empty text.

    `averages[head, n]` is what the first n tokens of the request hold in K/V head `head`; `largest` is the largest V of
    all requests in the batch.
    """
    if not math.isfinite(number) or number == 0:
        return SEES_NOTHING
    alike = [(head, seen) for (head, seen), average in averages.items() if math.isclose(number, average, abs_tol=1e-3)]
    others = [head for head, seen in alike if head != kv_head and seen == position + 1]
    if others:
        return ANOTHER_HEAD.format(head=others[0])
    if [head for head, _ in alike] == [kv_head]:
        return ANOTHER_END.format(seen=alike[0][1])
    return LOOKS_OUTSIDE if number > largest + 1 else ""


def hint_of_step(
    yours: Tensor,
    expected: Tensor,
    token: int,
    head: int,
    query: Tensor,
    keys: Sequence[Sequence[Tensor]],
    values: Sequence[Sequence[Tensor]],
    layer: int,
    position: int,
    scale: float,
) -> str:
    """Return a hint for a wrong vector of a random step: the one mistake that gives just these numbers, or a question.

    `query` [heads, head_dim] is the token's; `keys` and `values` are its request's by layer and position.
    """
    vector = yours[token, head].to(query.dtype)
    if not vector.isfinite().all():
        return NOT_FINITE
    num_kv_heads = keys[layer][0].shape[0]
    kv_head, seen = head // (len(query) // num_kv_heads), position + 1

    def attended(of_layer: int, kv: int, num_seen: int, factor: float, first: int = 0) -> Tensor:
        some_keys = torch.stack(list(keys[of_layer][first:num_seen]))[:, kv]
        some_values = torch.stack(list(values[of_layer][first:num_seen]))[:, kv]
        return torch.softmax(some_keys @ query[head] * factor, dim=0) @ some_values

    default = query.shape[1] ** -0.5
    suspects: list[tuple[str, Tensor]] = [
        (ANOTHER_SCALE.format(used=default, scale=scale), attended(layer, kv_head, seen, default)),
        (ANOTHER_SCALE.format(used=1, scale=scale), attended(layer, kv_head, seen, 1.0)),
        (ANOTHER_HEAD.format(head=head % num_kv_heads), attended(layer, head % num_kv_heads, seen, scale)),
        ("your token does not see itself.", attended(layer, kv_head, max(1, seen - 1), scale)),
        ("your token sees the one after it.", attended(layer, kv_head, seen + 1, scale)),
        ("your token sees later tokens of its request, too.", attended(layer, kv_head, len(keys[layer]), scale)),
    ]
    other = 1 - layer
    if len(keys[other]) >= seen:
        suspects.append((ANOTHER_LAYER, attended(other, kv_head, seen, scale)))
    fitting = {hint for hint, wrong in suspects if torch.allclose(vector, wrong, rtol=1e-3, atol=1e-3)}
    if len(fitting) == 1:
        return fitting.pop() + " Where in your code is that decided?"
    return misplaced(yours, expected, token, head) or QUESTION
