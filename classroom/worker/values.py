"""The objects that both ends share: requests, the list of running ones, the plan of a step.

Each has a number. Each message carries their changes since the last one, so that both ends always have the same state.
"""

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

from classroom.worker.encoding import Encoding, Exported, Json
from classroom.worker.states import ProtocolError, kind_of, request_id, set_request, state_of_request, whole
from mini_vllm.core.request import Request
from mini_vllm.core.step import Preempted, SchedulerOutput

MAX_SHARED = 10_000


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
        self.export = export
        self.proxy = proxy
        self._next = first_number
        self._creates = creates
        encoding = Encoding(self)
        self.encode, self.decode = encoding.encode, encoding.decode
        self._things: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._sent: dict[int, Any] = {}
        self._watched: dict[int, str] = {}

    def is_shared(self, thing: object) -> bool:
        """Return whether an object has a number."""
        return id(thing) in self._numbers

    def shared(self, number: int) -> object:
        """Return the object with a number. Raises `KeyError`."""
        return self._things[number]

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
        if len(self._things) >= MAX_SHARED:
            raise ProtocolError(f"more than {MAX_SHARED:,} shared things")
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
            elif len(state) > MAX_SHARED:
                raise ProtocolError(f"a queue of more than {MAX_SHARED:,} requests")
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
