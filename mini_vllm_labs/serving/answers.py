"""Answers a request with a single JSON object, or with server-sent events while the texts grow."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from mini_vllm.outputs import RequestOutput
from mini_vllm_labs.serving.errors import ApiError, error_of_engine, error_of_output
from mini_vllm_labs.serving.generate_request import GenerateRequest, Item, Outputs
from mini_vllm_labs.serving.limits import ended_by_disconnect
from mini_vllm_labs.serving.tool_calls import GrowingCall

compact = json.JSONEncoder(separators=(",", ":")).encode  # `json.dumps` would create a new encoder for each call
DONE = b"data: [DONE]\n\n"
START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),  # otherwise, nginx holds back events until its buffer is full
    ],
}


async def whole_answer(request: GenerateRequest, http_request: Request) -> Response:
    """Generate all choices and return them, but abort them if the client disconnects.

    Raises `ApiError` if the engine rejects the request or a failing step ends it.
    """
    last: dict[int, RequestOutput] = {}
    async with ended_by_disconnect(http_request.receive):
        try:
            async for index, output in request.outputs():
                last[index] = output
                if output.error is not None:
                    raise error_of_output(output.error, request.sent)
        except Exception as error:
            raise error_of_engine(error, request.sent) from error
        outputs = [last[index] for index in range(len(request.choices))]
        choices = [await encoded_choice(request, index, output) for index, output in enumerate(outputs)]
        head = compact(head_of(request, request.format.object))[:-1]
        end = f'],"usage":{compact(request.usage(outputs))}}}'
        return Response(f'{head},"choices":[{",".join(choices)}{end}', media_type="application/json")
    return Response()  # the client has disconnected, so nobody will read this response


async def encoded_choice(request: GenerateRequest, index: int, output: RequestOutput) -> str:
    """Encode a choice as JSON; with logprobs it is large, so a thread encodes it while streams continue."""

    def encoded() -> str:
        return compact(whole_choice(request, index, output))

    return encoded() if output.outputs[0].logprobs is None else await asyncio.to_thread(encoded)


def head_of(request: GenerateRequest, kind: str) -> dict[str, Any]:
    """Return the fields that begin an answer and every event in a stream."""
    return {
        "id": request.answer_id,
        "object": kind,
        "created": request.created,
        "model": request.adapter_id or request.served.name,
    }


def whole_choice(request: GenerateRequest, index: int, output: RequestOutput) -> dict[str, Any]:
    completion, logprobs = output.outputs[0], request.reported_logprobs(index)
    if request.forced_call is None:
        whole = request.format.whole(request.choices[index].echo + completion.text)
    else:
        whole = {"message": request.forced_call.message(completion.text)}
    return {
        "index": index,
        **whole,
        "logprobs": logprobs and request.format.take_logprobs(logprobs, completion),
        "finish_reason": request.finish_reason(completion.finish_reason),
        "stop_reason": completion.stop_reason,
    }


class StreamedAnswer(Response):
    """Sends the events of all choices directly to the connection, without an intermediate generator.

    The status line is not sent before the first output, so a request that the engine rejects still gets an error
    status; a later error becomes an event. If the client disconnects, the choices are aborted. A notice is sent
    immediately as a comment, which clients ignore.
    """

    def __init__(self, request: GenerateRequest) -> None:
        super().__init__()
        self._request = request
        self._choices = [ChoiceEvents(request, index) for index in range(len(request.choices))]
        self._last: dict[int, RequestOutput] = {}
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send, streams = send, self._request.served.streams
        streams.add(self._tell)
        try:
            # Without `aclosing`, the generator would abort its choices only when it was garbage-collected.
            async with ended_by_disconnect(receive), aclosing(self._request.outputs()) as outputs:
                await self._send_events(outputs)
        finally:
            streams.remove(self._tell)

    async def _tell(self, notice: str) -> None:
        lines = [f": {line}\n" for line in notice.splitlines()]
        await self._write("".join([*lines, "\n"]).encode())

    async def _write(self, events: bytes, *, more: bool = True) -> None:
        if not self._has_begun:
            self._has_begun = True
            await self._send(START)
        if events:
            await self._send({"type": "http.response.body", "body": events, "more_body": more})

    async def _send_events(self, outputs: Outputs) -> None:
        """Send the events of all outputs, and stop at the first error."""
        try:
            while (item := await self._next(outputs)) is not None:
                index, output = item
                self._last[index] = output
                if output.error is None or self._has_begun:
                    await self._write(self._choices[index].of(output))
                if output.error is not None:
                    raise error_of_output(output.error, self._request.sent)
            end = self._usage() + DONE
        except ApiError as error:
            if not self._has_begun:
                raise
            end = event(error.body) + DONE
        await self._write(end, more=False)

    async def _next(self, outputs: Outputs) -> Item | None:
        """Return the next output and its choice's index, or None after the last output. Raises `ApiError`."""
        try:
            return await anext(outputs, None)
        except Exception as error:
            raise error_of_engine(error, self._request.sent) from error

    def _usage(self) -> bytes:
        request = self._request
        if not request.include_usage:
            return b""
        outputs = [self._last[index] for index in range(len(self._choices))]
        return event(head_of(request, request.format.chunk_object) | {"choices": [], "usage": request.usage(outputs)})


class ChoiceEvents:
    """The events of one choice: an opening event, one per piece of text, and an ending with the finish reason."""

    def __init__(self, request: GenerateRequest, index: int) -> None:
        self._request, self._format, self._index = request, request.format, index
        self._logprobs = request.reported_logprobs(index)
        self._echo = request.choices[index].echo
        self._call = GrowingCall(request.forced_call) if request.forced_call else None
        self._is_open = False
        # Every event repeats these fields, so they are encoded once per choice rather than once per token.
        self._start = f'data: {compact(head_of(request, request.format.chunk_object))[:-1]},"choices":['
        # If OpenAI's stream ends with the usage, all earlier events also contain the field, set to null.
        self._end = '],"usage":null}\n\n' if request.include_usage else "]}\n\n"
        # Everything in an event except its text is encoded only once: encoding a whole choice for each token takes 20
        # times as long.
        before, _, after = compact(self._choice(self._format.piece(""))).partition('""')
        self._before_text, self._after_text = self._start + before, after

    def of(self, output: RequestOutput) -> bytes:
        """Return the events of an output, or an empty list if there is nothing new to show."""
        if self._request.continuous_usage:
            self._end = f'],"usage":{compact(self._request.usage([output]))}}}\n\n'
        events = [] if self._is_open else self._opening()
        self._is_open = True
        reported = self._logprobs
        logprobs = None if reported is None else self._format.take_logprobs(reported, output.outputs[0])
        if self._call is not None:
            events += self._events_of_call(self._call.take(output.new_text, is_last=output.finished), logprobs)
        elif logprobs is not None:
            events.append(self._event(self._format.piece(output.new_text), logprobs))
        elif output.new_text:
            events.append(f"{self._before_text}{compact(output.new_text)}{self._after_text}{self._end}")
        if output.finished:
            end, reason = output.outputs[0], self._request.finish_reason(output.outputs[0].finish_reason)
            events.append(self._event(self._format.ending, finish_reason=reason, stop_reason=end.stop_reason))
        return "".join(events).encode()

    def _events_of_call(self, pieces: list[dict[str, Any]], logprobs: dict[str, Any] | None) -> list[str]:
        """Return one event per piece.

        The first event includes the logprobs; if there are no pieces, an empty event includes them.
        """
        forced = self._request.forced_call
        assert forced is not None
        deltas = [forced.delta(piece) for piece in pieces] or [{}] * (logprobs is not None)
        return [self._event({"delta": delta}, None if place else logprobs) for place, delta in enumerate(deltas)]

    def _opening(self) -> list[str]:
        echo = self._format.piece(self._echo) if self._echo else None
        return [self._event(part) for part in (self._format.opening, echo) if part is not None]

    def _event(self, part: dict[str, Any], logprobs: dict[str, Any] | None = None, **reasons: object) -> str:
        return f"{self._start}{compact(self._choice(part, logprobs) | reasons)}{self._end}"

    def _choice(self, part: dict[str, Any], logprobs: dict[str, Any] | None = None) -> dict[str, Any]:
        return {"index": self._index, **part, "logprobs": logprobs, "finish_reason": None}


def event(body: dict[str, Any]) -> bytes:
    """Encode an object as an event."""
    return f"data: {compact(body)}\n\n".encode()
