"""Builds function calls that a client forces: the text's schema, and the call, whole or streamed.

A forced call is JSON that follows the schema of the function's parameters, so phase 9 generates it like a
`response_format`. With several functions, the text names one of them: `{"name": ..., "parameters": ...}`, as in vLLM's
`tool_choice: "required"`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
ITS_OBJECTS = ("properties", "$defs", "definitions")  # keywords whose values map names to schemas
NOT_SCHEMAS = ("const", "enum", "default", "examples", "required")
COMBINED = ("allOf", "not", "if", "dependentSchemas")
Schemas = Mapping[str, Mapping[str, Any]]  # the JSON schema of each function's parameters


@dataclass(frozen=True, slots=True)
class ForcedCall:
    """A call to one of `schemas`.

    `is_named` means that the client chose the function, and `is_legacy` means that it did so with `function_call`.
    """

    schemas: Schemas
    is_named: bool
    is_legacy: bool

    def schema(self) -> Mapping[str, Any]:
        """Return the JSON schema that the text must follow."""
        if len(self.schemas) == 1:
            return next(iter(self.schemas.values()))
        return {"anyOf": [_with_name(*item, f"#/anyOf/{place}") for place, item in enumerate(self.schemas.items())]}

    def finish_reason(self, reason: str | None) -> str | None:
        """Return the finish reason as OpenAI and vLLM report it: a named call ends like any other text."""
        return "tool_calls" if reason == "stop" and not self.is_named else reason

    def message(self, text: str) -> dict[str, Any]:
        """Return an answer's whole message. A text that was cut off before it named a function contains no call."""
        call, arguments = GrowingCall(self), ""
        for delta in call.take(text, is_last=True):
            arguments += delta["function"]["arguments"]
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if call.name is None:
            return message
        function = {"name": call.name, "arguments": arguments}
        if self.is_legacy:
            return message | {"function_call": function}
        return message | {"tool_calls": [{"id": call.id, "type": "function", "function": function}]}

    def delta(self, call: dict[str, Any]) -> dict[str, Any]:
        """Return the streamed delta for a piece of `GrowingCall`."""
        return {"function_call": call["function"]} if self.is_legacy else {"tool_calls": [{"index": 0} | call]}


class GrowingCall:
    """Extracts the call from one growing text."""

    def __init__(self, forced: ForcedCall) -> None:
        self.id = f"call_{uuid4().hex[:24]}"
        self.name: str | None = None
        self._openings = {f'{{"name":{json.dumps(name)},"parameters":': name for name in forced.schemas}
        if len(forced.schemas) == 1:
            self._openings = {"": next(iter(forced.schemas))}
        self._text, self._num_shown, self._closing = "", 0, ""

    def take(self, new_text: str, *, is_last: bool) -> list[dict[str, Any]]:
        """Return the pieces that the new text adds: first the function's name, then parts of its arguments."""
        self._text += new_text
        pieces = list[dict[str, Any]]()
        if self.name is None:
            opening = next((opening for opening in self._openings if self._text.startswith(opening)), None)
            if opening is None:
                return []
            self.name, self._num_shown = self._openings[opening], len(opening)
            self._closing = "}" if opening else ""  # this brace does not belong to the arguments
            function = {"name": self.name, "arguments": ""}
            pieces.append({"id": self.id, "type": "function", "function": function})
        end = len(self._text)
        if self._closing and self._text.endswith(self._closing) and (not is_last or _is_json(self._text)):
            end -= 1
        if arguments := self._text[self._num_shown : end]:
            pieces.append({"function": {"arguments": arguments}})
        self._num_shown = end
        return pieces


def closed(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema whose objects allow only declared properties, unless they explicitly allow other properties.

    A function cannot use undeclared properties. OpenAI's strict functions and vLLM's default (xgrammar) interpret
    schemas in this way. A schema that combines several schemas is not changed, because each of them describes part of
    the same object.
    """
    try:
        return {**_closed(parameters)}
    except LookupError:
        return parameters


def _closed(schema: Any) -> Any:
    """Close a schema recursively. Raises `LookupError` if the schema combines several schemas."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    has_properties = "properties" in schema
    if any(key in schema for key in (*COMBINED, *(("anyOf", "oneOf", "$ref") if has_properties else ()))):
        raise LookupError
    new: dict[str, Any] = (
        {"additionalProperties": False} if has_properties and "patternProperties" not in schema else {}
    )
    for key, value in schema.items():
        if key in ITS_OBJECTS and isinstance(value, Mapping):
            new[key] = {name: _closed(one) for name, one in value.items()}
        else:
            new[key] = value if key in NOT_SCHEMAS else _closed(value)
    return new


def _with_name(name: str, parameters: Mapping[str, Any], place: str) -> dict[str, Any]:
    properties = {"name": {"const": name}, "parameters": _moved(parameters, f"{place}/properties/parameters")}
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _moved(schema: Any, place: str) -> Any:
    """Return a schema moved to `place` in an outer schema, with its references adjusted."""
    if isinstance(schema, Mapping):
        moved, there = {key: _moved(value, place) for key, value in schema.items()}, schema.get("$ref")
        if isinstance(there, str) and there.partition("/")[0] == "#":
            moved["$ref"] = f"{place}{there[1:]}"
        return moved
    return [_moved(one, place) for one in schema] if isinstance(schema, list) else schema


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
