"""Converts values from a learner's code to plain JSON in the worker, and checks that JSON in the judge."""

import operator
import sys
from collections.abc import Callable, Iterable, KeysView, Mapping, Set
from dataclasses import fields, is_dataclass
from itertools import islice
from math import isfinite
from numbers import Real
from typing import Any

from mini_vllm.core.block import KVCacheBlock
from mini_vllm.core.request import Request
from mini_vllm_labs.classroom.worker.text import MAX_TEXT, printable
from mini_vllm_labs.runs.sandbox.errors import UnusableAnswerError
from mini_vllm_labs.runs.sandbox.explain import explain

MAX_INTEGER = 2**256
MAX_DEPTH = 40
MAX_ITEMS = 10_000
BY_CONTRACT = (ValueError, IndexError, KeyError)  # exceptions named in a phase's contract
Json = Any


class AnswerError(ValueError):
    """A worker sent a value that the judge rejects."""


class Describer:
    """Turns values into JSON. Hashes become numbers in order of first appearance; equal hashes get equal numbers."""

    def __init__(self, number_of: Callable[[Request], int] = lambda request: -1) -> None:
        self._number_of = number_of
        self._hashes: dict[bytes, int] = {}

    def __call__(self, value: Any, depth: int = 0) -> Json:
        """Return a value as JSON. Raises `UnusableAnswerError` if that is impossible."""
        if depth > MAX_DEPTH:
            raise UnusableAnswerError(f"Your code returned a value that is nested more than {MAX_DEPTH} levels deep.")
        if value is None or isinstance(value, bool | str) or type(value) is int:
            return value
        if isinstance(value, Request):
            return self._request(value)
        if isinstance(value, KVCacheBlock):
            return value.block_id
        if isinstance(value, bytes | bytearray):
            return self._hashes.setdefault(bytes(value), len(self._hashes))
        if hasattr(value, "state") and not isinstance(value, type):
            return self(value.state(), depth + 1)
        if is_dataclass(value) and not isinstance(value, type):
            return {field.name: self(getattr(value, field.name), depth + 1) for field in fields(value)}
        return self._other(value, depth)

    def _request(self, request: Request) -> Json:
        described = {field.name: self(getattr(request, field.name)) for field in fields(request)}
        described |= {"arrival_time": repr(request.arrival_time)}  # exactly
        described |= {"status": request.status.name, "sampling_params": repr(request.sampling_params)}
        return {"request": request.request_id, "number": self._number_of(request), **described}

    def _other(self, value: Any, depth: int) -> Json:
        if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
            numbers = value.detach().cpu().reshape(-1).tolist()
            if value.is_floating_point():
                numbers = [round(number, 6) if isfinite(number) else str(number) for number in numbers]
            return {"dtype": str(value.dtype), "shape": list(value.shape), "numbers": numbers}
        if isinstance(value, Mapping):
            if all(type(key) is str for key in value):
                return {key: self(item, depth + 1) for key, item in islice(value.items(), MAX_ITEMS)}
            return sorted(self(list(value.items()), depth), key=str)
        if isinstance(value, Set) and not isinstance(value, KeysView):
            return self(sorted(value), depth)
        if isinstance(value, float):
            return value if isfinite(value) else str(value)
        if hasattr(value, "tolist"):  # numpy numbers and arrays
            return self(value.tolist(), depth + 1)
        if isinstance(value, Iterable):
            items = list(islice(value, MAX_ITEMS + 1))
            if len(items) > MAX_ITEMS:
                raise UnusableAnswerError(f"Your code returned more than {MAX_ITEMS:,} values at once.")
            return [self(item, depth + 1) for item in items]
        if hasattr(value, "__index__"):
            return operator.index(value)
        if isinstance(value, Real):
            return float(value)
        raise UnusableAnswerError(f"Your code returned {type(value).__name__}, which is not a plain value.")


def raised(error: BaseException) -> Json:
    """Turn an exception into an answer: its type, and an explanation for the learner."""
    kind = next((kind.__name__ for kind in BY_CONTRACT if isinstance(error, kind)), type(error).__name__)
    return {"raises": kind, "text": explain(error, {})[:MAX_TEXT]}


def checked(value: Json, depth: int = 0) -> Json:
    """Make the texts in a worker's JSON printable.

    Raises `AnswerError` if a value is nested too deeply, too long or too large.
    """
    if depth > MAX_DEPTH:
        raise AnswerError(f"a value is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, int) and not -MAX_INTEGER < value < MAX_INTEGER:
        raise AnswerError("a number is out of range")
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise AnswerError(f"a text has {len(value):,} characters, but at most {MAX_TEXT:,} can be read")
        return printable(value)
    if isinstance(value, list):
        is_plain = depth < MAX_DEPTH and set(map(type, value)) == {int}
        if is_plain and max(value) < MAX_INTEGER and min(value) > -MAX_INTEGER:
            return value  # a fast path: most values are in lists like this
        return [checked(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {checked(key): checked(item, depth + 1) for key, item in value.items()}
    return value
