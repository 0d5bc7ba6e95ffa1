"""Makes requests for the graded tests. This file contains no tasks."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from operator import attrgetter
from random import Random
from typing import Any, cast

from mini_vllm.config import Policy
from mini_vllm.core.request import MultiModalFeatureSpec, Request, RequestStatus
from mini_vllm.core.service_level import ServiceLevel
from mini_vllm.sampling_params import SamplingParams

LONG_START = "x" * 300  # ids that differ only at their ends
# Ids in one family are easily confused: "10" starts with "1", and "é" may be one character or two.
FAMILIES_OF_IDS = (
    ("A", "B", "C", "D", "9", "10", "r7", "Ä"),
    ("1", "10", "100", "1-0", "1:0", "01", "0", "11"),
    ("山", "川", "é", "e\u0301", "ﬁ", "fi", "ß", "ss"),
)

VALUES = attrgetter(*Request.__slots__)
ARE_PLAIN = ContextVar("ARE_PLAIN", default=False)


def make_request(
    request_id: str,
    num_prompt_tokens: int,
    *,
    num_computed_tokens: int = 0,
    num_output_tokens: int = 0,
    max_tokens: int = 100,
    priority: int = 0,
    arrival_time: float = 0.0,
    token_ids: Sequence[int] | None = None,
) -> Request:
    """Return a request that is RUNNING if it has computed tokens, and WAITING otherwise.

    Fields that no rule mentions have values that depend on its id.
    """
    prompt = list(token_ids) if token_ids is not None else list(range(1000, 1000 + num_prompt_tokens))
    request = Request(
        request_id, prompt, SamplingParams(max_tokens=max_tokens), priority=priority, arrival_time=arrival_time
    )
    request.all_token_ids += range(5000, 5000 + num_output_tokens)
    request.num_computed_tokens = num_computed_tokens
    if num_computed_tokens:
        request.status = RequestStatus.RUNNING
    return with_unread_fields(Random(request_id), request)


def as_typed(policy: Policy) -> Policy:
    """Return an equal string that is a new object, like one from a command line or a file."""
    return cast(Policy, "".join(list(policy)))


def fields_of(request: Request) -> dict[str, object]:
    """Return all fields of a request, keyed by name. Lists are copied; other values cannot change in place."""
    fields = zip(Request.__slots__, VALUES(request), strict=True)
    return {name: value[:] if isinstance(value, list) else value for name, value in fields}


def changed(request: Request, before: Mapping[str, object]) -> str:
    """Describe which fields of the request a call has changed."""
    changes = (f"request.{name} changed" for name, value in before.items() if getattr(request, name) != value)
    return ", ".join(changes) or "as before"


def numbers(told: str) -> list[int]:
    """Parse a text such as "7 1-3*2" into numbers: 7, 1, 2, 3, 1, 2, 3."""
    found = list[int]()
    for ends, _, times in (part.partition("*") for part in told.split()):
        first, _, last = ends.partition("-")
        found += [*range(int(first), int(last or first) + 1)] * int(times or 1)
    return found


def yes_or_no(answer: object) -> object:
    """Convert a truth value from any library to a plain bool; describe any other answer."""
    return bool(answer) if answer in (True, False) else f"{answer!r}, a {type(answer).__name__}"


def some_ids(rng: Random, count: int) -> list[str]:
    """Draw distinct ids from one family of easily confused ids. If there are many ids, they may differ only after 300
    characters."""
    family, start = rng.choice(FAMILIES_OF_IDS), rng.choice(("", LONG_START))
    return rng.sample([*family, *(f"{start}{name}.{n}" for n in range(count // 8) for name in family)], count)


def with_a_past(rng: Random, request: Request) -> Request:
    """Randomise the fields that a request may carry over from earlier steps and other phases; return the request."""
    request.num_preemptions = rng.choice((0, 0, 1, 4))
    request.num_cached_tokens = rng.choice((-1, 0, 2, 40))
    request.spec_token_ids = rng.choices(range(50), k=rng.choice((0, 0, 1, 3)))
    request.num_output_placeholders = rng.choice((0, 0, 1, 2))
    request.cache_salt, request.adapter_id = rng.choice((None, "山")), rng.choice((None, "a"))
    # a separate generator, so that the caller's next draws stay the same
    return with_unread_fields(Random(f"{request.request_id} {request.spec_token_ids}"), request)


def with_unread_fields(rng: Random, request: Request) -> Request:
    """Randomise the fields that no phase reads, or only electives; return the request."""
    if ARE_PLAIN.get():
        return request
    request.seed, request.tenant = rng.getrandbits(40), rng.choice(("", "free tier", "a"))
    if rng.random() < 0.5:
        request.service_level = ServiceLevel("fast", ttft=0.5, tpot=0.05, e2e=4.0)
        request.mm_features = (MultiModalFeatureSpec("cat", 0, 1),)
    logprobs, seed, temperature = rng.choice((None, 0, 5, 20)), rng.choice((None, 3)), rng.choice((0.0, 0.7))
    request.sampling_params = replace(request.sampling_params, logprobs=logprobs, seed=seed, temperature=temperature)
    return request


@contextmanager
def plain_requests() -> Iterator[None]:
    """Leave the fields that no phase reads at their defaults, in requests that are made in the `with` block."""
    before = ARE_PLAIN.set(True)
    try:
        yield
    finally:
        ARE_PLAIN.reset(before)


def ids(answer: Any) -> object:
    """Return a copy of the block ids in an answer, or describe an answer that is not a list."""
    is_list = hasattr(answer, "__len__") and hasattr(answer, "__getitem__") and not isinstance(answer, Mapping | str)
    return list(map(int, answer)) if is_list else None if answer is None else f"a {type(answer).__name__}, not a list"
