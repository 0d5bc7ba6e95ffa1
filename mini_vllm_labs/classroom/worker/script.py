"""Replays a script of recorded calls to one phase on a learner's file, and returns the result of each call.

Input and output are plain data. The judge replays the same script on the reference.
"""

import io
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from mini_vllm.core.request import Request
from mini_vllm_labs.classroom.worker.answers import BY_CONTRACT, Describer, Json, raised
from mini_vllm_labs.classroom.worker.device import device_tensors, on_a_device
from mini_vllm_labs.classroom.worker.leeway import tokens_drawn

Call = tuple[str, bytes]  # the method's name and its arguments
CALLED_BY: Mapping[str, Callable[..., Any]] = {
    "paged_attention": on_a_device,
    "write_kv": on_a_device,
    "sample": tokens_drawn,
}


class ScriptReplay:
    """Makes the calls of a script, and stores the requests and batches that the calls share."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.requests: dict[int, Request] = {}
        self.shared: dict[int, Any] = {}
        self.describe = Describer(self.number_of)

    def call(self, name: str, arguments: bytes) -> Json:
        """Make one call; return its result and the state of its arguments afterwards."""
        positional, named = ArgumentReader(arguments, self).load()
        function = getattr(self.file, name)
        found = CALLED_BY[name](function, *positional, **named) if name in CALLED_BY else function(*positional, **named)
        observed = [*positional, *named.values()]
        if name == "paged_attention":  # the call may change the query but not the caches
            observed = [float(cache.sum()) for cache in positional[1:3]]
        return {
            "returns": "an iterator" if isinstance(found, Iterator) else self.describe(found),
            "arguments": [self.describe(one) for one in observed],
        }

    def number_of(self, request: Request) -> int:
        """Return the number of a request in the script, or -1 for any other request."""
        return next((number for number, one in self.requests.items() if one is request), -1)


class ArgumentReader(pickle.Unpickler):
    """Unpickles the judge's arguments; a request is the same object in every call."""

    def __init__(self, arguments: bytes, replay: ScriptReplay) -> None:
        super().__init__(io.BytesIO(arguments))
        self._replay = replay

    def persistent_load(self, pid: Any) -> Any:
        kind, *content = pid
        match kind:
            case "request":
                return self._request(*content)
            case "shared" if content[0] in self._replay.shared:
                return self._replay.shared[content[0]]
        batch = device_tensors().on_device(pickle.loads(content[1]))  # shared by all layers
        return self._replay.shared.setdefault(content[0], batch)

    def _request(self, number: int, state: dict[str, Any]) -> Request:
        known = self._replay.requests
        request = known.setdefault(number, Request(state["request_id"], state["prompt_token_ids"]))
        request.all_token_ids[:] = state.pop("all_token_ids")
        for name, value in state.items():
            setattr(request, name, value)
        return request


def replay(
    files: Mapping[int, Any], phase: int, calls: Iterable[Call], send: Callable[[Json], None] = lambda answer: None
) -> list[Json]:
    """Make all calls; each answer is sent before the next call is read. An exception counts as an answer."""
    played, answers = ScriptReplay(files[phase]), list[Json]()
    for name, arguments in calls:
        try:
            answers.append(played.call(name, arguments))
        except BaseException as error:
            answers.append(raised(error))
        send(answers[-1])
        if ends_script(answers[-1]):
            break
    return answers


def ends_script(answer: Json) -> bool:
    """Return whether an answer is an exception whose type is not part of any contract."""
    names = [kind.__name__ for kind in BY_CONTRACT]
    return isinstance(answer, dict) and "raises" in answer and answer["raises"] not in names
