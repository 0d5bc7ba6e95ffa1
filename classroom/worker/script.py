"""A script: recorded calls to one phase, made again on a learner's file, and what each of them shows.

Plain data goes in and plain data comes out. The judge plays the same script on the reference.
"""

import importlib
import io
import pickle
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from classroom.worker.answers import BY_CONTRACT, Describer, Json, raised
from mini_vllm.core.block import KVCacheBlock
from mini_vllm.core.request import Request

MODULE = -1
Call = tuple[int, str, bytes]  # the number of the call that made the object, or MODULE; the name; the arguments
# They may use their arguments as scratch paper.
UNOBSERVED = ("paged_attention", "sample")
ON_ONE_DEVICE = ("paged_attention", "sample", "write_kv")
STATES: Mapping[str, Callable[[Any, Iterable[Request]], Json]] = {
    "FreeKVCacheBlockQueue": lambda queue, _: [queue.num_free_blocks, queue.block_ids()],
    "PagedKVCacheManager": lambda kv, requests: {
        "tables": [kv.block_ids(request.request_id) for request in requests],
        "free": kv.free_block_ids(),
        "num_free_blocks": kv.num_free_blocks,
        "ref_counts": sorted(kv.ref_counts().items()),
        "usage": round(float(kv.usage), 6),
    },
    "PriorityRequestQueue": lambda queue, _: [
        len(queue),
        next(iter(queue), None),
        [request.request_id for request in queue],
    ],
    "HashPrefixCache": lambda cache, _: {
        "cached": sorted(cache.cached_blocks().items()),
        "hit_rate": round(float(cache.hit_rate()), 6),
    },
}


def elsewhere() -> AbstractContextManager[Any]:
    """Put tensors on no real device where none is named: an answer lies where its arguments lie."""
    device: AbstractContextManager[Any] = importlib.import_module("torch").device("meta")
    return device


class ScriptReplay:
    """The objects that live through a script: requests, blocks, and the results of earlier calls."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.results: list[Any] = []
        self.requests: dict[int, Request] = {}
        self.blocks: dict[int, KVCacheBlock] = {}
        self.shared: dict[int, Any] = {}
        self.given: dict[int, list[Any]] = {}  # the doubles that an object was made with
        self.describe = Describer(self.number_of)

    def call(self, target: int, name: str, arguments: bytes) -> Json:
        """Make one call; return its result, its arguments afterwards, and the state of its object."""
        positional, named = ArgumentReader(arguments, self).load()
        thing = self.file if target == MODULE else self.results[target]
        is_class = target == MODULE and name[0].isupper()
        drafts = [one.spec_token_ids for one in positional if isinstance(one, Request)]
        with elsewhere() if name in ON_ONE_DEVICE else nullcontext():
            found = getattr(thing, name)(*positional, **named)
        self.results.append(found)
        if is_class:
            self.given[len(self.results) - 1] = [one for one in positional if hasattr(one, "state")]
            return None
        observed = [] if name in UNOBSERVED else [*positional, *named.values()]
        kind = type(thing).__name__
        return {
            "returns": self.describe(found),
            "arguments": [self.describe(one) for one in observed],
            "same object": name == "accept_drafts" and any(found is one for one in positional),
            "drafts before": self.describe(drafts),
            "state": self.describe(STATES[kind](thing, self.requests.values())) if kind in STATES else None,
            "calls": [self.describe(double) for double in self.given.get(target, ())],
        }

    def number_of(self, request: Request) -> int:
        """Return the number of a request of the script, -1 for any other."""
        return next((number for number, one in self.requests.items() if one is request), -1)


class ArgumentReader(pickle.Unpickler):
    """Reads the judge's arguments: each request and block is the same object in every call."""

    def __init__(self, arguments: bytes, replay: ScriptReplay) -> None:
        super().__init__(io.BytesIO(arguments))
        self._replay = replay

    def persistent_load(self, pid: Any) -> Any:
        kind, *content = pid
        match kind:
            case "request":
                return self._request(*content)
            case "block":
                return self._replay.blocks.setdefault(content[0], KVCacheBlock(content[0]))
            case "result":
                return self._replay.results[content[0]]
            case "shared" if content[0] in self._replay.shared:
                return self._replay.shared[content[0]]
            case "shared":
                return self._replay.shared.setdefault(content[0], pickle.loads(content[1]))
            case "stand-in":
                return content[0]
        return getattr(self._replay.file, content[0])

    def _request(self, number: int, state: dict[str, Any]) -> Request:
        known = self._replay.requests
        request = known.setdefault(number, Request(state["request_id"], state["prompt_token_ids"]))
        request.all_token_ids[:] = state.pop("all_token_ids")
        for name, value in state.items():
            setattr(request, name, value)
        return request


def replay(files: Mapping[int, Any], phase: int, calls: list[Call]) -> list[Json]:
    """Make all calls. An exception is an answer, too; the script goes on only if a contract names its kind."""
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
