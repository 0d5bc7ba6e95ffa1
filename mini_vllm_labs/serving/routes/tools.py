"""Defines the fields with which clients request function calls: OpenAI's current and legacy fields."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator

from mini_vllm_labs.serving.errors import invalid
from mini_vllm_labs.serving.routes.fields import Fields, shown
from mini_vllm_labs.serving.tool_calls import NO_PARAMETERS, ForcedCall, closed

MAX_FUNCTIONS = 128  # OpenAI's limit
Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")]


class Function(Fields):
    """A function that a model may call. Its calls always follow the schema, regardless of `strict`."""

    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Fields):
    """A tool that a model may call; only functions are supported."""

    type: Literal["function"]
    function: Function


Functions = Annotated[list[Function], Field(max_length=MAX_FUNCTIONS)]
Tools = Annotated[list[Tool], Field(max_length=MAX_FUNCTIONS)]


def tool_choice_of(value: object) -> str:
    """Return `none`, `auto`, `required`, or `=` followed by a function's name. Raises `ValueError`."""
    match value:
        case "none" | "auto" | "required":
            return value
        case {"type": "function", "function": {"name": str(name), **inner}, **outer} if not inner and not outer:
            return f"={name}"
    form = '{"type": "function", "function": {"name": ...}}'
    raise ValueError(f'must be "none", "auto", "required" or {form}, got {shown(value)}')


def function_call_of(value: object) -> str:
    """Return the same values as `tool_choice_of`, for the legacy field. Raises `ValueError`."""
    match value:
        case "none" | "auto":
            return value
        case {"name": str(name), **rest} if not rest:
            return f"={name}"
    raise ValueError(f'must be "none", "auto" or {{"name": ...}}, got {shown(value)}')


class ToolFields(Fields):
    """The fields of a request that concern functions."""

    tools: Tools | None = None
    tool_choice: Annotated[str, PlainValidator(tool_choice_of)] | None = None
    parallel_tool_calls: bool | None = None  # an answer contains a single call, and both values allow that
    functions: Functions | None = None
    function_call: Annotated[str, PlainValidator(function_call_of)] | None = None

    @property
    def is_legacy(self) -> bool:
        """Whether the request uses the legacy fields."""
        return bool(self.functions) or (self.function_call or "").startswith("=")

    @property
    def described_tools(self) -> list[dict[str, Any]]:
        """Return the functions in the form in which a chat template shows them to the model."""
        return [{"type": "function", "function": one.model_dump(exclude_none=True)} for one in self._functions()]

    def forced_call(self) -> ForcedCall | None:
        """Return the call that the answer must make, or None for plain text. Raises `ApiError` if the model would
        choose whether to call a function."""
        field, choice_field = ("functions", "function_call") if self.is_legacy else ("tools", "tool_choice")
        choice = self.function_call if self.is_legacy else self.tool_choice
        if self.is_legacy and (self.tools or self.tool_choice not in (None, "none", "auto")):
            raise invalid(
                "functions and function_call are older names for tools and tool_choice: send only one pair",
                field,
            )
        functions = {one.name: one for one in self._functions()}
        if len(functions) < len(self._functions()):
            raise invalid(f"{field} must not contain the same function name twice", field)
        if not functions and choice not in (None, "none", "auto"):
            raise invalid(f"{choice_field} is allowed only together with {field}", choice_field)
        if not functions or choice == "none":
            return None
        if choice is None or choice == "auto":
            how = 'function_call: {"name": ...}' if self.is_legacy else 'tool_choice: "required" or a named function'
            message = f"{field} are not supported where the model chooses whether to call one: force a call ({how})"
            raise invalid(f"{message}, or use response_format, which is supported", field, "unsupported_value")
        if choice != "required" and choice[1:] not in functions:
            message = f"{choice_field} names {choice[1:]!r}, but {field} has {', '.join(functions)}"
            raise invalid(message, choice_field)
        chosen = functions.values() if choice == "required" else [functions[choice[1:]]]
        schemas = {one.name: _schema(one, field) for one in chosen}
        return ForcedCall(schemas, is_named=choice != "required", is_legacy=self.is_legacy)

    def _functions(self) -> list[Function]:
        return self.functions or [tool.function for tool in self.tools or ()]


def _schema(function: Function, field: str) -> Mapping[str, Any]:
    schema = function.parameters or NO_PARAMETERS
    if schema.get("type", "object") != "object":
        message = f"the parameters of {function.name} must have the type object, got {shown(schema['type'])}"
        raise invalid(f"{field}: {message}", field, "invalid_function_parameters")
    return closed(schema)
