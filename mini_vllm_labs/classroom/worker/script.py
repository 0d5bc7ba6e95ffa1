"""Replays a script, recorded calls to one phase, on a learner's file and returns each call's effects.

Input and output are plain data. The judge plays the same script on the reference.
"""

import io
import pickle
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from mini_vllm.core.request import Request
from mini_vllm_labs.classroom.worker.answers import BY_CONTRACT, Describer, Json, raised
from mini_vllm_labs.classroom.worker.device import device_tensors, on_a_device
from mini_vllm_labs.classroom.worker.leeway import tokens_drawn

MODULE = -1
Call = tuple[int, str, bytes]  # the number of the call that made the object, or MODULE; the name; the arguments
CALLED_BY: Mapping[str, Callable[..., Any]] = {
    "paged_attention": on_a_device,
    "write_kv": on_a_device,
    "sample": tokens_drawn,
}


class ScriptReplay:
    """Holds the objects of a script: requests, and the results of earlier calls."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.results: list[Any] = []
        self.requests: dict[int, Request] = {}
        self.shared: dict[int, Any] = {}
        self.describe = Describer(self.number_of)

    def call(self, target: int, name: str, arguments: bytes) -> Json:
        """Make one call; return its result, its object and its arguments afterwards."""
        thing, positional, named = self.read(target, arguments)
        is_class = target == MODULE and name[0].isupper()
        is_plan = name == "schedule_drafts"  # the step's record also holds the list of drafts
        drafts = [one.spec_token_ids for one in positional if isinstance(one, Request) and is_plan]
        function = partial(CALLED_BY[name], getattr(thing, name)) if name in CALLED_BY else getattr(thing, name)
        found = function(*positional, **named)
        self.results.append(found)
        if is_class:
            return None
        observed = [*positional, *named.values()]
        if name == "paged_attention":  # it may change the query, but not the caches
            observed = [float(cache.sum()) for cache in positional[1:3]]
        return {
            "returns": "an iterator" if isinstance(found, Iterator) else self.describe(found),
            "arguments": [self.describe(one) for one in observed],
            "same object": name == "accept_drafts" and any(found is one for one in positional),
            "drafts before": self.describe(drafts),
        }

    def read(self, target: int, arguments: bytes) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """Return the object of a call and its arguments."""
        positional, named = ArgumentReader(arguments, self).load()
        return self.file if target == MODULE else self.results[target], positional, named

    def number_of(self, request: Request) -> int:
        """Return the number of a request of the script, or -1 for a different one."""
        return next((number for number, one in self.requests.items() if one is request), -1)


class ArgumentReader(pickle.Unpickler):
    """Reads the judge's arguments: each request is the same object in every call."""

    def __init__(self, arguments: bytes, replay: ScriptReplay) -> None:
        super().__init__(io.BytesIO(arguments))
        self._replay = replay

    def persistent_load(self, pid: Any) -> Any:
        kind, *content = pid
        match kind:
            case "request":
                return self._request(*content)
            case "result":
                return self._replay.results[content[0]]
            case "shared" if content[0] in self._replay.shared:
                return self._replay.shared[content[0]]
        batch = device_tensors().on_device(pickle.loads(content[1]))  # one for all layers
        return self._replay.shared.setdefault(content[0], batch)

    def _request(self, number: int, state: dict[str, Any]) -> Request:
        known = self._replay.requests
        request = known.setdefault(number, Request(state["request_id"], state["prompt_token_ids"]))
        request.all_token_ids[:] = state.pop("all_token_ids")
        for name, value in state.items():
            setattr(request, name, value)
        return request


def replay(files: Mapping[int, Any], phase: int, calls: list[Call]) -> list[Json]:
    """Make all calls. An exception is also an answer; the script continues only if a contract names its kind."""
    played, answers = ScriptReplay(files[phase]), list[Json]()
    for target, name, arguments in calls:
        try:
            answers.append(played.call(target, name, arguments))
        except BaseException as error:
            answers.append(raised(error))
            if not isinstance(error, BY_CONTRACT) or name[0].isupper():
                break
            played.results.append(None)
    return answers
