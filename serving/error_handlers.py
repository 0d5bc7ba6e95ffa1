"""All errors of the application in OpenAI's form, those of the framework too."""

from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from mini_vllm.engine.errors import EngineDeadError, ShuttingDownError
from serving.errors import ApiError, error_of_engine, invalid


def install_error_handlers(app: FastAPI) -> None:
    """Make the application answer every error as a JSON object."""
    app.add_exception_handler(ApiError, _api_error)
    for error in (EngineDeadError, ShuttingDownError):
        app.add_exception_handler(error, _engine_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _wrong_query)
    app.add_exception_handler(Exception, _unforeseen_error)


async def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error.response()


async def _engine_error(request: Request, error: Exception) -> Response:
    return error_of_engine(error, prompt_field="").response()


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path, status = request.url.path, HTTPStatus(error.status_code)
    match status:
        case HTTPStatus.NOT_FOUND:
            message = f"there is nothing at {path}"
        case HTTPStatus.METHOD_NOT_ALLOWED:
            message = f"{request.method} is not allowed at {path}"
        case _:
            message = str(error.detail)
    headers = dict(error.headers) if error.headers else None
    return ApiError(status, message, code=status.phrase.lower().replace(" ", "_"), headers=headers).response()


async def _wrong_query(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    param = str(first["loc"][-1])
    return invalid(f"{param}: {first['msg']}", param).response()


async def _unforeseen_error(request: Request, error: Exception) -> Response:
    return ApiError(500, f"{type(error).__name__}: {error}", type="server_error", code="internal_error").response()
