"""The same request at another moment: objects that live on from call to call, and fields that no rule is about."""

import random
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from copy import copy
from itertools import chain, combinations
from typing import TYPE_CHECKING

from mini_vllm.core.request import Request
from mini_vllm.sampling_params import SamplingParams

if TYPE_CHECKING:  # the judge's jail has this file and not the reports
    from mini_vllm_labs.grading.labtest.expect import Told

NOTHING_KEPT = (
    "Every call is answered from its arguments as they are at that moment; nothing is kept from earlier calls."
)
KEPT = "which list, dict, set or cache does a call add to, that is still there after it?"
USUAL = Request("usual", [0], SamplingParams(max_tokens=10_000))
UNASKED = (  # the fields that `varied` changes
    "priority arrival_time cache_salt adapter_id seed eos_token_ids num_cached_tokens num_preemptions spec_token_ids "
    "num_output_placeholders block_hashes sampling_params"
).split()


def varied(request: Request, rng: random.Random, keep: Collection[str] = ()) -> Request:
    """Return the request with other values in the fields that most rules do not mention, but for those to keep."""
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
        ),
    }
    for name, value in fields.items():
        if name not in keep:
            setattr(request, name, value)
    return request


class Living:
    """Requests that live through a test: the engine asks about the same object again after it has changed.

    Now and then another object takes over a name, as when a client uses an id twice.
    """

    def __init__(self, rng: random.Random) -> None:
        self.random = rng
        self.known: dict[str, Request] = {}

    def now(self, moment: Request) -> Request:
        """Return the request of this name, which has all the values of `moment` now. Its lists are the same lists."""
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
    """Return what a report says: that something is kept between calls if `call`, made alone, gives the right answer.

    `alone` names the call, as in "a new policy, asked about a copy of the request".
    """
    with suppress(Exception):
        if call() == right:
            lines = told["situation"]
            lines = lines.splitlines() if isinstance(lines, str) else list(lines)
            told = {
                **told,
                "rule": NOTHING_KEPT,
                "situation": [*lines, f"{alone}, gives the right answer"],
                "hint": "your rule is right, since the same call alone is answered correctly. What of earlier calls is "
                "still in an object, a list, a default value or a cache?",
            }
    return told


def told_of_fields(
    told: "Told",
    requests: Sequence[Request],
    ask: Callable[[list[Request]], object],
    right: object,
    keep: Collection[str] = (),
) -> "Told":
    """Return what a report says: which fields the answer hangs on that no rule asks for, but for those to keep.

    `ask` makes the call about copies of the requests, by a new object. One or two fields at a time get their usual
    values; they are named if the answer is right then, and is not right without it.
    """
    names = [name for name in UNASKED if name not in keep]
    for changed in chain.from_iterable(combinations(names, count) for count in range(3)):
        copies = [copy(one) for one in requests]
        for one in copies:
            for name in changed:
                setattr(one, name, copy(getattr(USUAL, name)))
        with suppress(Exception):
            if ask(copies) == right:
                return _reading(told, changed) if changed else told
    return told


def _reading(told: "Told", names: Sequence[str]) -> "Told":
    lines, what = told["situation"], " and ".join(f"{name}={getattr(USUAL, name)!r}" for name in names)
    lines = lines.splitlines() if isinstance(lines, str) else lines
    hint = f"the rule does not ask for {' and '.join(names)}. Where does your code read it?"
    return {**told, "situation": [*lines, f"with {what} your answer is right"], "hint": hint}
