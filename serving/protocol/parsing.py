"""From the bytes of a body to a request, or to an error that names the field."""

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from serving.errors import ApiError, invalid

Model = TypeVar("Model", bound=BaseModel)
MAX_SHOWN = 60


class Fields(BaseModel):
    """The fields of a request. Others are refused, and so are values of another type: "5" is no number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def parse(model: type[Model], body: bytes) -> Model:
    """Return the request in a body.

    Raises `ApiError` (400) if it is not JSON, is nested too deeply, has text that is not Unicode, or has a field that
    is missing, unknown or out of its range.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise _error_of(error.errors(include_url=False)[0]) from None


def _error_of(error: ErrorDetails) -> ApiError:
    param = ".".join(str(part) for part in error["loc"] if part != "[key]") or None
    match error["type"]:
        case "json_invalid":
            return invalid(f"the body is not valid JSON: {error['ctx']['error']}")
        case "extra_forbidden" | "none_required":
            return invalid(f"{param} is not supported by this server", param, "unsupported_parameter")
        case "missing":
            return invalid(f"{param} is missing", param, "missing_required_parameter")
        case "value_error":
            return invalid(f"{param} {error['ctx']['error']}", param)
        case "model_type" if param is None:
            return invalid("the body must be a JSON object")
        case _:
            return invalid(f"{param} {_rule_of(error['msg'])}, got {shown(error['input'])}", param)


def _rule_of(message: str) -> str:
    """Return pydantic's message without its subject, and in the words of JSON."""
    _, _, rule = message.partition(" ")  # "Input should be", "List should have"
    return rule.partition(" after validation")[0].replace("valid array", "list")


def shown(value: object) -> str:
    """Return a value for a message, shortened."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
