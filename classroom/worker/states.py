"""The mutable state of shared objects, and how a message sets it."""

from collections.abc import Iterable
from typing import Any, cast

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput


class ProtocolError(ValueError):
    """The peer sent a malformed value."""


def state_of_request(request: Request) -> tuple[Any, ...]:
    """Return the mutable state of a request, as plain values."""
    return (
        *(int(request.status), tuple(request.all_token_ids), request.num_computed_tokens, request.num_cached_tokens),
        *(request.num_preemptions, request.stop_reason, tuple(request.block_hashes), request.priority),
        request.arrival_time,
    )


def set_request(request: Request, state: Any) -> None:
    status, tokens, computed, cached, preemptions, stop_reason, hashes, priority, arrival = state
    request.status = RequestStatus(status)
    if tuple(request.all_token_ids) != tokens:
        request.all_token_ids[:] = [whole(token) for token in tokens]
    request.num_computed_tokens = whole(computed)
    request.num_cached_tokens = whole(cached)
    request.num_preemptions = whole(preemptions)
    if not (stop_reason is None or isinstance(stop_reason, int | str)):
        raise ProtocolError(f"a stop reason is a token id or a text, not {stop_reason!r}")
    request.stop_reason = stop_reason
    if tuple(request.block_hashes) != hashes:
        if not all(isinstance(hash_, bytes) for hash_ in hashes):
            raise ProtocolError("block hashes are bytes")
        request.block_hashes[:] = cast(Iterable[bytes], hashes)
    request.priority, request.arrival_time = whole(priority), float(arrival)


def whole(value: Any) -> int:
    if type(value) is not int:
        raise ProtocolError(f"a whole number is required, not {value!r}")
    return value


def request_id(value: Any) -> str:
    if not isinstance(value, str):
        raise ProtocolError(f"a request id is required, not {value!r}")
    return value


def kind_of(thing: object) -> str:
    if isinstance(thing, Request):
        return "request"
    if isinstance(thing, SchedulerOutput):
        return "step"
    if isinstance(thing, dict):
        return "dict"
    if isinstance(thing, list):
        return "list"
    raise TypeError(f"{type(thing).__name__} cannot be shared")
