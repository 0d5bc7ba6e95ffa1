"""An answer that is sent when all of it is there."""

from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from mini_vllm.outputs import RequestOutput
from serving.answers.asked import Asked
from serving.disconnect import ended_by_disconnect
from serving.errors import engine_error, error_of_engine


async def whole_answer(asked: Asked, request: Request) -> Response:
    """Generate all choices and return them. If the client goes away, they are aborted.

    Raises `ApiError` if the engine refuses the request, or if a failing step has ended it.
    """
    async with ended_by_disconnect(request.receive):
        try:
            outputs = await last_outputs(asked)
        except Exception as error:
            raise error_of_engine(error, asked.prompt_field) from error
        return JSONResponse(whole_body(asked, outputs))
    return Response()  # nobody is there to read it


async def last_outputs(asked: Asked) -> list[RequestOutput]:
    """Return the last output of each choice. Raises as `AsyncLLM.generate`, and for a request that failed."""
    last: dict[int, RequestOutput] = {}
    async for index, output in asked.outputs():
        last[index] = output
        if output.error is not None:
            raise engine_error(output.error)
    return [last[index] for index in range(len(asked.choices))]


def whole_body(asked: Asked, outputs: list[RequestOutput]) -> dict[str, Any]:
    """Return the JSON of an answer."""
    return {
        "id": asked.answer_id,
        "object": asked.form.object,
        "created": asked.created,
        "model": asked.served.name,
        "choices": [_choice(asked, index, output) for index, output in enumerate(outputs)],
        "usage": asked.usage(outputs),
    }


def _choice(asked: Asked, index: int, output: RequestOutput) -> dict[str, Any]:
    completion, logprobs = output.outputs[0], asked.reported_logprobs()
    echo = asked.echoes[index] if asked.echoes else ""
    return {
        "index": index,
        **asked.form.whole_text(echo + completion.text),
        "logprobs": logprobs and asked.form.take_logprobs(logprobs, completion),
        "finish_reason": completion.finish_reason,
        "stop_reason": completion.stop_reason,
    }
