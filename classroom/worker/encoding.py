"""Values as JSON and back: plain data by value, shared objects by their numbers."""

import operator
import sys
from collections.abc import KeysView, Sequence, ValuesView
from dataclasses import astuple
from numbers import Real
from typing import Any, Protocol

from classroom.worker.states import ProtocolError
from classroom.worker.text import MAX_TEXT, printable
from mini_vllm.core.request import Request
from mini_vllm.core.step import Preempted, ScheduledRequest, SchedulerOutput
from mini_vllm.sampling_params import SamplingParams

LARGEST = 2**256
DEEPEST = 40
Json = Any


class Exported:
    """An object that the peer may call, and its kind (a key of `proxies.PROXIES`)."""

    def __init__(self, thing: object, kind: str) -> None:
        self.thing = thing
        self.kind = kind


class Shared(Protocol):
    """The objects that both ends have, and those that one end calls on the other."""

    def is_shared(self, thing: object) -> bool: ...
    def share(self, thing: object) -> int: ...
    def shared(self, number: int) -> object: ...
    def export(self, exported: Exported) -> Json: ...
    def proxy(self, side: str, content: Json) -> object: ...


class Encoding:
    """One end's encoding, over the objects that it shares with the other end."""

    def __init__(self, objects: Shared) -> None:
        self._objects = objects

    def encode(self, value: Any) -> Json:
        """Return a value as JSON. Raises `TypeError` if it cannot be sent."""
        if value is None or type(value) is int or isinstance(value, bool | str | float):
            return value
        if isinstance(value, Exported):
            return self._objects.export(value)
        if isinstance(value, Request | SchedulerOutput) or self._objects.is_shared(value):
            return {"r": self._objects.share(value)}
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
            if len(value) > MAX_TEXT:
                raise ProtocolError(f"a text of {len(value):,} characters; at most {MAX_TEXT:,} are read")
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
                return self._objects.shared(content)
            case "b":
                if len(content) > MAX_TEXT:
                    raise ProtocolError(f"{len(content) // 2:,} bytes; at most {MAX_TEXT // 2:,} are read")
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
                return self._objects.proxy(kind, content)
            case "T" | "F":
                from classroom.worker import tensors

                return tensors.unpack_tensor(content) if kind == "T" else tensors.unpack_flat_batch(content)
        raise ProtocolError(f"no value has the kind {kind!r}")
