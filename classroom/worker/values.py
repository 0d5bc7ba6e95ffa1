"""Encoding of values between the two ends: plain data by value, requests and queues by reference.

Objects that both ends share (requests, the list of running ones, the plan of a step) have a number. Each message
carries their changes since the last one, so that both ends always have the same state.
"""

import operator
import sys
from collections.abc import Callable, KeysView, Sequence, ValuesView
from dataclasses import astuple
from numbers import Real
from typing import Any

from classroom.worker.states import ProtocolError, kind_of, request_id, set_request, state_of_request, whole
from classroom.worker.text import MOST_TEXT, printable
from mini_vllm.core.request import Request
from mini_vllm.core.step import Preempted, ScheduledRequest, SchedulerOutput
from mini_vllm.sampling_params import SamplingParams

LARGEST = 2**256
MOST_SHARED = 10_000
DEEPEST = 40
Json = Any


class Exported:
    """An object that the peer may call, and its kind (a key of `proxies.PROXIES`)."""

    def __init__(self, thing: object, kind: str) -> None:
        self.thing = thing
        self.kind = kind


class Values:
    """One end's table of shared objects, with the encoding of values as JSON and back.

    `export` gives an object its number on this end; `proxy` makes the proxy of an object of the peer.
    `creates` lists the kinds of shared objects that the peer may create.
    """

    def __init__(
        self,
        first_number: int,
        creates: tuple[str, ...],
        export: Callable[[Exported], Json],
        proxy: Callable[[str, Json], object],
    ) -> None:
        self._next = first_number
        self._creates = creates
        self._export = export
        self._proxy = proxy
        self._things: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._sent: dict[int, Any] = {}
        self._watched: dict[int, str] = {}

    def share(self, thing: object) -> int:
        """Return the number of an object that both ends share."""
        number = self._numbers.get(id(thing))
        if number is None:
            number, self._next = self._next, self._next + 2
            self._keep(number, thing)
        return number

    def changes(self) -> Json:
        """Return the changes since the last message."""
        found, done = [], 0
        while done < len(self._watched):  # reading a list may add new requests to the table
            for number in list(self._watched)[done:]:
                state = self._state(self._things[number])
                if self._sent.get(number) != state:
                    fixed = self._fixed(number)
                    self._sent[number] = state
                    found.append([number, self._watched[number], fixed, self.encode(state)])
                done += 1
        return found

    def apply(self, changes: Json) -> None:
        """Apply the peer's changes. Raises `ProtocolError`."""
        if not isinstance(changes, list) or not all(isinstance(item, list) and len(item) == 4 for item in changes):
            raise ProtocolError("no list of changes")
        for number, kind, fixed, _ in changes:
            if number not in self._things:
                self._create(number, kind, fixed)
        for number, _, _, state in changes:
            thing = self._things[number]
            self._set(thing, self.decode(state))
            self._sent[number] = self._state(thing)

    def encode(self, value: Any) -> Json:
        """Return a value as JSON. Raises `TypeError` if it cannot be sent."""
        if value is None or type(value) is int or isinstance(value, bool | str | float):
            return value
        if isinstance(value, Exported):
            return self._export(value)
        if isinstance(value, Request | SchedulerOutput) or id(value) in self._numbers:
            return {"r": self.share(value)}
        if isinstance(value, bytes | bytearray):
            return {"b": value.hex()}
        if isinstance(value, tuple):
            return {"t": [self.encode(item) for item in value]}
        if isinstance(value, dict):
            return {"d": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        if isinstance(value, SamplingParams):
            return {"s": self.encode(list(astuple(value)))}
        if isinstance(value, Preempted):
            return {"p": self.encode(list(astuple(value)))}
        if isinstance(value, ScheduledRequest):
            row = (value.num_computed_tokens, value.num_scheduled_tokens, value.block_ids, value.needs_token)
            return {"w": self.encode([value.request, *row])}
        return self._encode_other(value)

    def decode(self, value: Json, depth: int = 0) -> Any:
        """The reverse. Raises `ProtocolError`."""
        if depth > DEEPEST:
            raise ProtocolError(f"a value is nested more than {DEEPEST} deep")
        if isinstance(value, int) and not -LARGEST < value < LARGEST:
            raise ProtocolError("a number is out of range")
        if isinstance(value, str):
            if len(value) > MOST_TEXT:
                raise ProtocolError(f"a text of {len(value):,} characters; at most {MOST_TEXT:,} are read")
            return printable(value)
        if isinstance(value, list):
            return [self.decode(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) != 1:
            raise ProtocolError("a value with several kinds")
        ((kind, content),) = value.items()
        try:
            return self._decode_kind(kind, content, depth + 1)
        except ProtocolError:
            raise
        except Exception as error:
            raise ProtocolError(f"a value of kind {kind!r} is broken: {error}") from None

    def _encode_other(self, value: Any) -> Json:
        if "torch" in sys.modules:
            from classroom.worker import tensors

            if isinstance(value, tensors.Tensor):
                return {"T": tensors.pack_tensor(value)}
            if isinstance(value, tensors.FlatBatch):
                return {"F": tensors.pack_flat_batch(value)}
        if isinstance(value, Sequence | KeysView | ValuesView):
            return [self.encode(item) for item in value]
        if hasattr(value, "tolist"):  # numpy's numbers and arrays
            return self.encode(value.tolist())
        if hasattr(value, "__index__"):
            return operator.index(value)
        if isinstance(value, Real):
            return float(value)
        raise TypeError(f"your code gave back {type(value).__name__}, which is not a plain value")

    def _decode_kind(self, kind: str, content: Json, depth: int) -> Any:
        match kind:
            case "r":
                return self._things[content]
            case "b":
                if len(content) > MOST_TEXT:
                    raise ProtocolError(f"{len(content) // 2:,} bytes; at most {MOST_TEXT // 2:,} are read")
                return bytes.fromhex(content)
            case "t":
                return tuple(self.decode(content, depth))
            case "d":
                return {self.decode(key, depth): self.decode(item, depth) for key, item in content}
            case "s":
                return SamplingParams(*self.decode(content, depth))
            case "p":
                return Preempted(*self.decode(content, depth))
            case "w":
                return ScheduledRequest(*self.decode(content, depth))
            case "o" | "y":
                return self._proxy(kind, content)
            case "T" | "F":
                from classroom.worker import tensors

                return tensors.unpack_tensor(content) if kind == "T" else tensors.unpack_flat_batch(content)
        raise ProtocolError(f"no value has the kind {kind!r}")

    def _keep(self, number: int, thing: object) -> None:
        self._things[number] = thing
        self._numbers[id(thing)] = number
        kind = kind_of(thing)
        if kind == "step":  # a plan ends when the next one starts
            self._watched = {other: kind for other, kind in self._watched.items() if kind != "step"}
        self._watched[number] = kind

    def _state(self, thing: Any) -> Any:
        if isinstance(thing, Request):
            return state_of_request(thing)
        if isinstance(thing, SchedulerOutput):
            plan = tuple(thing.num_scheduled_tokens.items())
            return thing.token_budget, plan, tuple(astuple(item) for item in thing.preempted)
        if isinstance(thing, dict):
            return tuple((name, self.share(request)) for name, request in thing.items())
        return tuple(self.share(request) for request in thing)

    def _fixed(self, number: int) -> Json:
        thing = self._things[number]
        if number in self._sent or not isinstance(thing, Request):
            return None
        identity = (thing.request_id, list(thing.prompt_token_ids), thing.sampling_params, sorted(thing.eos_token_ids))
        return self.encode([*identity, thing.cache_salt, thing.adapter_id, thing.seed])

    def _create(self, number: Json, kind: Json, fixed: Json) -> None:
        if len(self._things) >= MOST_SHARED:
            raise ProtocolError(f"more than {MOST_SHARED:,} shared things")
        if type(number) is not int or kind not in self._creates:
            raise ProtocolError("a shared thing that this end may not make")
        match kind:
            case "request":
                name, prompt, params, eos, salt, adapter, seed = self.decode(fixed)
                thing: object = Request(
                    name, prompt, params, frozenset(eos), cache_salt=salt, adapter_id=adapter, seed=seed
                )
            case "step":
                thing = SchedulerOutput(0)
            case "dict":
                thing = {}
            case _:
                thing = []
        self._keep(number, thing)

    def _set(self, thing: Any, state: Any) -> None:
        try:
            if isinstance(thing, Request):
                set_request(thing, state)
            elif isinstance(thing, SchedulerOutput):
                thing.token_budget = state[0]
                thing.num_scheduled_tokens = {request_id(key): whole(count) for key, count in state[1]}
                thing.preempted = [
                    Preempted(request_id(item[0]), request_id(item[1]), whole(item[2])) for item in state[2]
                ]
            elif isinstance(thing, dict):
                items = {request_id(key): self._request(number) for key, number in state}
                thing.clear()
                thing.update(items)
            elif len(state) > MOST_SHARED:
                raise ProtocolError(f"a queue of more than {MOST_SHARED:,} requests")
            else:
                thing[:] = [self._request(number) for number in state]
        except ProtocolError:
            raise
        except Exception as error:
            raise ProtocolError(f"the state of a {kind_of(thing)} is broken: {error}") from None

    def _request(self, number: int) -> Request:
        thing = self._things[number]
        if not isinstance(thing, Request):
            raise ProtocolError("a queue may hold requests only")
        return thing
