"""Records a script of calls to a phase's reference, which a worker repeats on the learner's file."""

import io
import pickle
from dataclasses import fields, replace
from inspect import signature
from types import FunctionType
from typing import Any

from mini_vllm.core.request import Request
from mini_vllm_labs.classroom.judge.question import JudgeQuestion, packed, question, reference, short
from mini_vllm_labs.classroom.worker.scenario import EngineScenario
from mini_vllm_labs.classroom.worker.script import Call

SHARED = ("FlatBatch",)  # all layers in a step are passed the same object


class Script:
    """Records calls to a phase's functions, and the state of the arguments at each call."""

    def __init__(self, phase: int) -> None:
        self.phase = phase
        self.file = reference(phase)
        self.calls: list[Call] = []
        self.is_listening = True
        self._shown: list[str] = []
        self._requests: list[Request] = []
        self._shared: list[object] = []

    @property
    def functions(self) -> Any:
        """The reference's functions; all calls to them are recorded."""
        return RecordedFunctions(self)

    def call(self, name: str, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        function = getattr(self.file, name)
        if self.is_listening:
            self.calls.append((name, self._written((positional, named))))
            given = signature(function).bind(*positional, **named).arguments
            texts = (f"{key}={short(shown(value), 160)}" for key, value in given.items())
            self._shown.append(f"{name}({', '.join(texts)})")
        return function(*positional, **named)

    def question(self, scenario: EngineScenario | None = None) -> JudgeQuestion:
        assert self.calls, "a script that asks nothing"
        asked = question(self.phase, "replay", self.phase, self.calls, shown=self._shown, scenario=scenario)
        return replace(asked, arguments=packed((self.phase,)), calls=[*map(packed, self.calls)])

    def number_of(self, request: Request) -> int:
        """Return the number of a request, which is the same in every call."""
        number = next((number for number, one in enumerate(self._requests) if one is request), None)
        if number is None:
            number = len(self._requests)
            self._requests.append(request)
        return number

    def shared(self, thing: object) -> int:
        if all(thing is not other for other in self._shared):
            self._shared.append(thing)
        return next(number for number, other in enumerate(self._shared) if other is thing)

    def _written(self, arguments: object) -> bytes:
        file = io.BytesIO()
        ArgumentWriter(file, self).dump(arguments)
        return file.getvalue()


class RecordedFunctions:
    """Offers the functions of a script's phase and records each call."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def __getattr__(self, name: str) -> Any:
        return lambda *positional, **named: self._script.call(name, positional, named)


class TensorWriter(pickle.Pickler):
    """Pickles only the visible part of a tensor, because the rest of its storage may contain the answers."""

    def reducer_override(self, thing: Any) -> Any:
        if not hasattr(thing, "untyped_storage") or thing.untyped_storage().nbytes() == thing.nbytes:
            return NotImplemented
        return thing.clone().__reduce_ex__(pickle.DEFAULT_PROTOCOL)


class ArgumentWriter(TensorWriter):
    """Pickles arguments for a worker. Raises `TypeError` for objects that belong to the reference or the tests."""

    def __init__(self, file: io.BytesIO, script: Script) -> None:
        super().__init__(file)
        self._script = script

    def persistent_id(self, thing: Any) -> Any:
        if isinstance(thing, Request):
            state = {field.name: getattr(thing, field.name) for field in fields(thing)}
            return "request", self._script.number_of(thing), state
        if type(thing).__name__ in SHARED:
            TensorWriter(file := io.BytesIO()).dump(thing)
            return "shared", self._script.shared(thing), file.getvalue()
        return None

    def reducer_override(self, thing: Any) -> Any:
        kind = thing if isinstance(thing, type | FunctionType) else type(thing)
        if not kind.__module__.startswith(("solutions.", "mini_vllm_labs.grading.")):
            return super().reducer_override(thing)
        raise TypeError(f"a worker must not receive the reference's {kind.__name__}")


def shown(value: Any) -> str:
    """Return an argument in a form that the learner can read."""
    match value:
        case Request():
            counted = f"{value.num_computed_tokens} of {value.num_tokens} tokens computed"
            return f"{value.request_id} ({value.status.name}, {counted})"
        case list() | tuple():
            return f"[{', '.join(map(shown, value))}]"
        case dict():
            return f"{{{', '.join(f'{key}: {shown(item)}' for key, item in value.items())}}}"
    if hasattr(value, "shape"):
        return f"(tensor of {list(value.shape)})"
    text = repr(value)
    return f"({type(value).__name__})" if " object at 0x" in text else text
