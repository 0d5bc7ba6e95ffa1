"""An answer that is sent as it grows, in server-sent events."""

from contextlib import aclosing

from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from mini_vllm.outputs import RequestOutput
from serving.answers.asked import Asked
from serving.answers.events import DONE, ChoiceEvents, event, head_of
from serving.choices import Item, Outputs
from serving.disconnect import ended_by_disconnect
from serving.errors import ApiError, engine_error, error_of_engine

START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
    ],
}


class StreamedAnswer(Response):
    """Sends the events of all choices, written straight to the connection, without a generator in between.

    The status line waits for the first output: a request that the engine refuses gets the status of its error. An
    error behind that is an event of its own. If the client goes away, the choices are aborted.
    """

    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self._asked = asked
        self._choices = [ChoiceEvents(asked, index) for index in range(len(asked.choices))]
        self._last: dict[int, RequestOutput] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with ended_by_disconnect(receive), aclosing(self._asked.outputs()) as outputs:
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
        """Return the next output and its choice, None behind the last. Raises `ApiError`."""
        try:
            return await anext(outputs, None)
        except Exception as error:
            raise error_of_engine(error, self._asked.prompt_field) from error

    def _usage(self) -> bytes:
        if not self._asked.include_usage:
            return b""
        outputs = [self._last[index] for index in range(len(self._choices))]
        return event(head_of(self._asked) | {"choices": [], "usage": self._asked.usage(outputs)})
