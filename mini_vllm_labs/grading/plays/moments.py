"""Varies requests between calls: objects that persist from call to call, and fields that no rule mentions."""

import random
from collections.abc import Callable, Collection
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING

from mini_vllm.core.request import Request
from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.grading.plays.support import with_unread_fields
from mini_vllm_labs.runs.sandbox.frames import short

if TYPE_CHECKING:  # the judge's jail contains this file but not `expect.py`
    from mini_vllm_labs.grading.labtest.expect import Told

NOTHING_KEPT = "Each answer depends only on the arguments at that moment; nothing is kept from earlier calls."
UNASKED = (  # the fields that `varied` changes
    "priority arrival_time cache_salt adapter_id seed eos_token_ids num_cached_tokens num_preemptions spec_token_ids "
    "num_output_placeholders block_hashes sampling_params tenant service_level mm_features"
).split()


def varied(request: Request, rng: random.Random, keep: Collection[str] = ()) -> Request:
    """Set the fields that most rules do not mention, except those in `keep`, to random values; return the request."""
    num_left = rng.choice([1, 2, 30, 4096])
    fields: dict[str, object] = {
        "priority": rng.choice([0, -3, 7, 10**8]),
        "arrival_time": rng.choice([0.0, rng.random(), 1.7e9 + rng.random()]),
        "cache_salt": rng.choice([None, None, "blue", "山"]),
        "adapter_id": rng.choice([None, None, "sql"]),
        "seed": rng.choice([0, rng.getrandbits(40)]),
        "eos_token_ids": frozenset(rng.sample(range(9000), rng.choice([0, 1, 2]))),
        "num_cached_tokens": rng.choice([-1, 0, rng.randrange(request.num_tokens)]),
        "num_preemptions": rng.choice([0, 0, 1, 3]),
        "spec_token_ids": [rng.choice([-1, 0, rng.randrange(200_000)]) for _ in range(rng.choice([0, 0, 1, 4, 9]))],
        "num_output_placeholders": rng.choice([0, 0, 1, 5]),
        "block_hashes": [bytes([number]) * 32 for number in range(rng.choice([0, 0, 1, 3]))],
        "sampling_params": SamplingParams(
            max_tokens=request.num_output_tokens + num_left,
            temperature=rng.choice([0.0, 0.7]),
            seed=rng.choice([None, 3]),
            ignore_eos=rng.random() < 0.5,
            logprobs=rng.choice([None, 0, 20]),
        ),
    }
    other = with_unread_fields(rng, copy(request))
    fields |= {name: getattr(other, name) for name in ("tenant", "service_level", "mm_features")}
    for name, value in fields.items():
        if name not in keep:
            setattr(request, name, value)
    return request


class Living:
    """Requests that live throughout a test: as in the engine, a request remains the same object when it changes.

    Occasionally a new object takes over a name, as if a client reused an id.
    """

    def __init__(self, rng: random.Random) -> None:
        self.random = rng
        self.known: dict[str, Request] = {}

    def now(self, moment: Request) -> Request:
        """Copy all values from `moment` to the live request with that name; return it with the same list objects."""
        name = moment.request_id
        if name not in self.known or self.random.random() < 0.1:
            self.known[name] = moment
        living = self.known[name]
        for field in Request.__slots__:
            old, new = getattr(living, field), getattr(moment, field)
            if isinstance(old, list) and old is not new:
                old[:] = new
            else:
                setattr(living, field, new)
        return living


def told_of_memory(told: "Told", call: Callable[[], object], right: object, alone: str) -> "Told":
    """Report that state is kept between calls if `call` alone gives the right answer.

    Otherwise the report stays the same. `alone` describes the call, as in "a new policy, asked about a copy".
    """
    with suppress(Exception):
        if call() == right:
            lines = told["situation"]
            lines = lines.splitlines() if isinstance(lines, str) else list(lines)
            told = {
                **told,
                "rule": NOTHING_KEPT,
                "situation": [*lines, f"{alone}, gives the right answer"],
                "hint": "your rule is right, because the same call alone gives the right answer. What do you keep from "
                "earlier calls in an object, a list, a default value or a cache?",
            }
    return told


def with_odd_fields(request: Request, past: str | None, keep: Collection[str] = ()) -> str:
    """Set one to three fields that no rule mentions to values drawn with the seed `past`, and describe them."""
    rng = random.Random(f"{past} {request.request_id}")
    names = rng.sample(UNASKED, rng.randint(1, 3)) if past else []
    other = varied(copy(request), rng)
    odd = {name: getattr(other, name) for name in names if name not in keep}
    for name, value in odd.items():
        setattr(request, name, value)
    if "sampling_params" in odd:
        odd["sampling_params"] = f"max_tokens={request.sampling_params.max_tokens} and others"
    return "".join(f", {name}={short(value)}" for name, value in odd.items())


def told(kind: str, found: object, anew: object, usual: object) -> object:
    """Return an answer, plus any different answer given by a new object or for a request without odd fields."""
    if anew != found:
        return f"{found}; of a new {kind}: {anew}"
    return found if usual == found else f"{found}; with usual fields: {usual}"
