"""The two ways to answer a request: in one JSON object, or as server-sent events while the texts grow."""

import json
from contextlib import aclosing
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from mini_vllm.outputs import RequestOutput
from serving.answer_format import ReportedLogprobs
from serving.errors import ApiError, engine_error, error_of_engine
from serving.generate_request import GenerateRequest, Item, Outputs
from serving.limits import ended_by_disconnect

COMPACT = (",", ":")
DONE = b"data: [DONE]\n\n"
START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
    ],
}


async def whole_answer(request: GenerateRequest, http_request: Request) -> Response:
    """Generate all choices and return them. If the client goes away, they are aborted.

    Raises `ApiError` if the engine refuses the request, or if a failing step has ended it.
    """
    last: dict[int, RequestOutput] = {}
    async with ended_by_disconnect(http_request.receive):
        try:
            async for index, output in request.outputs():
                last[index] = output
                if output.error is not None:
                    raise engine_error(output.error)
        except Exception as error:
            raise error_of_engine(error, request.prompt_field) from error
        outputs = [last[index] for index in range(len(request.choices))]
        choices = [whole_choice(request, index, output) for index, output in enumerate(outputs)]
        return JSONResponse(
            head_of(request, request.format.object) | {"choices": choices, "usage": request.usage(outputs)}
        )
    return Response()  # the client has gone and will not read it


def head_of(request: GenerateRequest, kind: str) -> dict[str, Any]:
    """Return what an answer, and every event of a stream, begins with."""
    return {"id": request.answer_id, "object": kind, "created": request.created, "model": request.served.name}


def whole_choice(request: GenerateRequest, index: int, output: RequestOutput) -> dict[str, Any]:
    """Return a finished choice."""
    completion, logprobs = output.outputs[0], request.reported_logprobs()
    echo = request.echoes[index] if request.echoes else ""
    return {
        "index": index,
        **request.format.whole_text(echo + completion.text),
        "logprobs": logprobs and request.format.take_logprobs(logprobs, completion),
        "finish_reason": completion.finish_reason,
        "stop_reason": completion.stop_reason,
    }


class StreamedAnswer(Response):
    """Sends the events of all choices, written straight to the connection, without a generator in between.

    The status line waits for the first output: a request that the engine refuses gets the status of its error. A later
    error is an event. If the client goes away, the choices are aborted.
    """

    def __init__(self, request: GenerateRequest) -> None:
        super().__init__()
        self._request = request
        self._choices = [ChoiceEvents(request, index) for index in range(len(request.choices))]
        self._last: dict[int, RequestOutput] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with ended_by_disconnect(receive), aclosing(self._request.outputs()) as outputs:
            first = await self._next(outputs)
            if first is not None and first[1].error is not None:
                raise engine_error(first[1].error)
            await send(START)
            await self._send_events(first, outputs, send)

    async def _send_events(self, item: Item | None, outputs: Outputs, send: Send) -> None:
        """Send the events of all outputs. An error ends them."""
        try:
            while item is not None:
                index, output = item
                self._last[index] = output
                if events := self._choices[index].of(output):
                    await send({"type": "http.response.body", "body": events, "more_body": True})
                if output.error is not None:
                    raise engine_error(output.error)
                item = await self._next(outputs)
            end = self._usage() + DONE
        except ApiError as error:
            end = event(error.body) + DONE
        await send({"type": "http.response.body", "body": end, "more_body": False})

    async def _next(self, outputs: Outputs) -> Item | None:
        """Return the next output and its choice, None after the last. Raises `ApiError`."""
        try:
            return await anext(outputs, None)
        except Exception as error:
            raise error_of_engine(error, self._request.prompt_field) from error

    def _usage(self) -> bytes:
        request = self._request
        if not request.include_usage:
            return b""
        outputs = [self._last[index] for index in range(len(self._choices))]
        return event(head_of(request, request.format.chunk_object) | {"choices": [], "usage": request.usage(outputs)})


class ChoiceEvents:
    """The events of one choice: an opening, one for each piece of text, an ending with the finish reason.

    What is the same in every event of a choice is written once, before the first.
    """

    def __init__(self, request: GenerateRequest, index: int) -> None:
        self._format = request.format
        self._logprobs = request.reported_logprobs()
        self._echo = request.echoes[index] if request.echoes else ""
        self._is_open = False
        head = json.dumps(head_of(request, request.format.chunk_object), separators=COMPACT).removesuffix("}")
        self._start = f'data: {head},"choices":[{{"index":{index},'
        # OpenAI's streams that end with the usage have the field, null, in every other event.
        self._end = '}],"usage":null}\n\n' if request.include_usage else "}]}\n\n"
        self._before_text = self._start + self._format.before_text
        self._after_text = f'{self._format.after_text},"logprobs":null,"finish_reason":null{self._end}'

    def of(self, output: RequestOutput) -> bytes:
        """Return the events of an output; none if it brings nothing to show."""
        text = "" if self._is_open else self._opening()
        new_text = output.new_text
        if self._logprobs is not None:
            text += self._with_logprobs(self._logprobs, output)
        elif new_text:
            text += self._before_text + json.dumps(new_text) + self._after_text
        if output.finished:
            text += self._ending(output)
        return text.encode()

    def _opening(self) -> str:
        self._is_open = True
        parts = [] if self._format.opening is None else [self._format.opening]
        if self._echo:
            parts.append(f"{self._format.before_text}{json.dumps(self._echo)}{self._format.after_text}")
        return "".join(f'{self._start}{part},"logprobs":null,"finish_reason":null{self._end}' for part in parts)

    def _with_logprobs(self, logprobs: ReportedLogprobs, output: RequestOutput) -> str:
        taken = json.dumps(self._format.take_logprobs(logprobs, output.outputs[0]), separators=COMPACT)
        text = json.dumps(output.new_text) + self._format.after_text
        return f'{self._before_text}{text},"logprobs":{taken},"finish_reason":null{self._end}'

    def _ending(self, output: RequestOutput) -> str:
        completion = output.outputs[0]
        reason, stop = json.dumps(completion.finish_reason), json.dumps(completion.stop_reason)
        reasons = f'"finish_reason":{reason},"stop_reason":{stop}'
        return f'{self._start}{self._format.ending},"logprobs":null,{reasons}{self._end}'


def event(body: dict[str, Any]) -> bytes:
    """Return any object as an event."""
    return f"data: {json.dumps(body, separators=COMPACT)}\n\n".encode()
