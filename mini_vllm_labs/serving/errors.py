"""Builds errors in OpenAI's format: a status, and a JSON object with message, type, param and code."""

import logging
from dataclasses import dataclass
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from mini_vllm.engine.errors import (
    ContextLengthError,
    EngineDeadError,
    QueueFullError,
    RequestIdInUseError,
    ShuttingDownError,
)

logger = logging.getLogger(__name__)


class ApiError(Exception):
    """An error to send in response to a request; `param` is the request's invalid field."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.body = {"error": {"message": message, "type": type, "param": param, "code": code}}

    def response(self) -> JSONResponse:
        return JSONResponse(self.body, self.status, self.headers)


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """Return the error (400) for an invalid value."""
    return ApiError(400, message, param=param, code=code)


def unavailable(message: str, code: str) -> ApiError:
    """Return the error (503) for an engine that does not accept requests. OpenAI's client retries after
    `Retry-After`."""
    return ApiError(503, message, type="service_unavailable_error", code=code, headers={"Retry-After": "5"})


def engine_error(message: str) -> ApiError:
    """Return the error (500) for a request that was ended by a failing step."""
    return ApiError(500, message, type="server_error", code="engine_error")


@dataclass(frozen=True, slots=True)
class SentFields:
    """Maps the engine's value names to the request fields in which the client sent the values."""

    prompt: str
    max_tokens: str = "max_tokens"
    structured_outputs: str = "structured_outputs"

    def error(self, message: str) -> ApiError:
        """Return the error for an engine message, which may begin with the name of the invalid setting."""
        setting, _, rest = message.partition(" ")
        root = setting.partition(".")[0]
        if root in ("max_tokens", "structured_outputs") and (sent := getattr(self, root)) != root:
            return invalid(f"{sent} {rest}", sent)
        return invalid(message, "model" if rest.startswith("adapter ") else setting if "_" in setting else self.prompt)

    def too_long(self, error: ContextLengthError) -> ApiError:
        """Return the error for a request that is too long.

        The message is OpenAI's, because clients such as LiteLLM search for it.
        """
        num_tokens = error.num_prompt_tokens + error.max_tokens
        message = (
            f"This model's maximum context length is {error.max_total_tokens} tokens. However, you requested "
            f"{num_tokens} tokens ({error.num_prompt_tokens} in the {self.prompt}, {error.max_tokens} in the "
            f"completion). Please reduce the length of the {self.prompt} or completion: {error}."
        )
        return invalid(message, self.prompt, "context_length_exceeded")


def error_of_output(message: str, sent: SentFields) -> ApiError:
    """Return the client's error for a failed output: 400 if its grammar could not be compiled, 500 otherwise."""
    return sent.error(message) if message.startswith("structured_outputs") else engine_error(message)


def error_of_engine(error: Exception, sent: SentFields) -> ApiError:
    """Return the client's error for an exception raised by `AsyncLLM.generate`.

    A timeout is a 504, because the engine's answer is late; a 408 would blame the client for sending too slowly.
    """
    message = str(error)
    match error:
        case ApiError():
            return error
        case QueueFullError():
            headers = {"Retry-After": "1"}
            message = f"Rate limit reached: {message}"
            return ApiError(429, message, type="rate_limit_error", code="rate_limit_exceeded", headers=headers)
        case RequestIdInUseError():
            return ApiError(409, message, param="X-Request-Id", code="request_id_in_use")
        case ShuttingDownError():
            return unavailable(message, "shutting_down")
        case EngineDeadError():
            return unavailable(message, "engine_dead")
        case TimeoutError():
            message = "the request was not finished in the time that this server gives a request, and was aborted"
            return ApiError(504, message, type="timeout_error", code="request_timeout")
        case ContextLengthError():
            return sent.too_long(error)
        case ValueError():
            return sent.error(message)
        case _:
            logger.error("a request failed in the engine", exc_info=error)
            return engine_error(f"{type(error).__name__}: {error}")


def install_error_handlers(app: FastAPI) -> None:
    """Make the application report every error, including the framework's, in this format."""
    for kind in (ApiError, EngineDeadError, ShuttingDownError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _answer)


async def _answer(request: Request, error: Exception) -> Response:
    match error:
        case ApiError() | EngineDeadError() | ShuttingDownError():
            answer = error_of_engine(error, SentFields(""))
        case HTTPException():
            answer = _http_error(request, error)
        case RequestValidationError():
            first = error.errors()[0]  # OpenAI's error format names a single field
            param = str(first["loc"][-1])
            answer = invalid(f"{param}: {first['msg']}", param)
        case _:
            answer = ApiError(500, f"{type(error).__name__}: {error}", type="server_error", code="internal_error")
    return answer.response()


def _http_error(request: Request, error: HTTPException) -> ApiError:
    path, status = request.url.path, HTTPStatus(error.status_code)
    match status:
        case HTTPStatus.NOT_FOUND:
            message = f"there is nothing at {path}"
        case HTTPStatus.METHOD_NOT_ALLOWED:
            message = f"{request.method} is not allowed at {path}"
        case _:
            message = str(error.detail)
    headers = dict(error.headers) if error.headers else None
    return ApiError(status, message, code=status.phrase.lower().replace(" ", "_"), headers=headers)
