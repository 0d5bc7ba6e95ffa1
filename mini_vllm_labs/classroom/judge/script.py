"""Records a script: calls made here to a phase's reference, which a worker repeats on the learner's file."""

import importlib
import io
import pickle
from collections.abc import Collection, Iterator
from dataclasses import fields
from inspect import signature
from types import FunctionType
from typing import Any

from mini_vllm.core.request import Request
from mini_vllm_labs.classroom.judge.question import JudgeQuestion, question, short
from mini_vllm_labs.classroom.worker.scenario import EngineScenario
from mini_vllm_labs.classroom.worker.script import MODULE, Call
from mini_vllm_labs.grading.labtest.strict_queue import StrictQueue
from mini_vllm_labs.runs.starter_status import lab_folder

SHARED = ("FlatBatch",)  # all layers of a step get the same object


def reference(phase: int) -> Any:
    return importlib.import_module(f"solutions.{lab_folder(phase)}")


class Script:
    """Records calls to one phase, each with the state of its arguments at that moment.

    `only` names the functions and methods to record; calls to all others leave no trace.
    """

    def __init__(self, phase: int, only: Collection[str] = ()) -> None:
        self.phase = phase
        self.file = reference(phase)
        self.functions: Any = RecordedObject(self, MODULE, self.file)
        self.calls: list[Call] = []
        self.is_listening = True
        self._only = only
        self._shown: list[str] = []
        self._requests: list[Request] = []
        self._shared: list[object] = []
        self._is_in_call = False

    def recorded_class(self, name: str) -> type["RecordedObject"]:
        """Return a class that makes objects of the phase and records their calls."""
        script = self

        class Recorded(RecordedObject):
            def __init__(self, *positional: Any, **named: Any) -> None:
                index = len(script.calls)
                super().__init__(script, index, script.call(script.functions, name, positional, named))

        return Recorded

    def records(self, name: str) -> bool:
        """Return whether to record a call; calls inside a recorded call are not recorded."""
        if self._is_in_call or not self.is_listening:
            return False
        return not self._only or name in self._only

    def call(self, recorded: "RecordedObject", name: str, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        function = getattr(recorded.thing, name)
        self.calls.append((recorded.index, name, self._written((positional, named))))
        arguments = signature(function).bind(*positional, **named).arguments
        self._shown.append(
            f"{name}({', '.join(f'{key}={short(shown(value), 160)}' for key, value in arguments.items())})"
        )
        self._is_in_call = True
        try:
            return function(*positional, **named)
        finally:
            self._is_in_call = False

    def question(self, scenario: EngineScenario | None = None) -> JudgeQuestion:
        assert any(not name[0].isupper() for _, name, _ in self.calls), "a script that asks nothing"
        return question(self.phase, "replay", self.phase, self.calls, shown=self._shown, scenario=scenario)

    def number_of(self, request: Request) -> int:
        """Return the number of a request, the same in every call."""
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


class RecordedObject:
    """Wraps an object of a phase's reference, or its module, and records calls of its methods."""

    def __init__(self, script: Script, index: int, thing: Any) -> None:
        self.script = script
        self.index = index
        self.thing = thing

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.thing, name)
        if isinstance(found, type):
            return self.script.recorded_class(name)
        if not callable(found) or not self.script.records(name):
            return found
        return lambda *positional, **named: self.script.call(self, name, positional, named)

    def __len__(self) -> int:
        return len(self.thing)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.thing)


class TensorWriter(pickle.Pickler):
    """Writes only a tensor's own part of its storage, because the rest may contain anything, even answers."""

    def reducer_override(self, thing: Any) -> Any:
        if not hasattr(thing, "untyped_storage") or thing.untyped_storage().nbytes() == thing.nbytes:
            return NotImplemented
        return thing.clone().__reduce_ex__(pickle.DEFAULT_PROTOCOL)


class ArgumentWriter(TensorWriter):
    """Writes arguments for a worker. Raises `TypeError` for objects of the reference or of the tests."""

    def __init__(self, file: io.BytesIO, script: Script) -> None:
        super().__init__(file)
        self._script = script

    def persistent_id(self, thing: Any) -> Any:
        if isinstance(thing, Request):
            state = {field.name: getattr(thing, field.name) for field in fields(thing)}
            return "request", self._script.number_of(thing), state
        if isinstance(thing, RecordedObject):
            return "result", thing.index
        if type(thing).__name__ in SHARED:
            TensorWriter(file := io.BytesIO()).dump(thing)
            return "shared", self._script.shared(thing), file.getvalue()
        return None

    def reducer_override(self, thing: Any) -> Any:
        kind = thing if isinstance(thing, type | FunctionType) else type(thing)
        if kind is StrictQueue or not kind.__module__.startswith(("solutions.", "mini_vllm_labs.grading.labtest.")):
            return super().reducer_override(thing)
        raise TypeError(f"{kind.__name__} of the reference must not enter a worker")


def shown(value: Any) -> str:
    """Format an argument for the learner."""
    match value:
        case Request():
            counted = f"{value.num_computed_tokens} of {value.num_tokens} tokens computed"
            return f"{value.request_id} ({value.status.name}, {counted})"
        case list() | tuple():
            return f"[{', '.join(map(shown, value))}]"
        case dict():
            return f"{{{', '.join(f'{key}: {shown(item)}' for key, item in value.items())}}}"
        case RecordedObject():
            return f"(your {type(value.thing).__name__})"
    if hasattr(value, "shape"):
        return f"(tensor of {list(value.shape)})"
    text = repr(value)
    return f"({type(value).__name__})" if " object at 0x" in text else text
