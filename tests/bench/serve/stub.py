"""A server whose behaviour depends on the prompt: well-behaved, refusing, disconnecting, or sending nonsense."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mini_vllm_labs.bench.serve.text_requests import Endpoint

GAP = 0.02
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
Write = Callable[[bytes], None]


def event(text: str | None = "", reason: str | None = None, **more: object) -> bytes:
    """Return an event of a completion; if `text` is None, the event has no choices."""
    choices = [] if text is None else [{"index": 0, "text": text, "finish_reason": reason}]
    return b"data: " + json.dumps({"choices": choices, **more}).encode() + b"\n\n"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def usage(num_output: int) -> bytes:
    return event(None, usage={"prompt_tokens": 3, "completion_tokens": num_output, "total_tokens": 3 + num_output})


def plain(status: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


ANSWERS: dict[str, bytes] = {
    "full": plain("429 Too Many Requests", json.dumps({"error": {"message": "the queue is full"}}).encode()),
    "broken": plain("500 Internal Server Error", b"Traceback"),
    "empty": b"",
    "cut": HEAD + chunk(event("word")),
    "garbage": b"\x00\xff\x16\x03 what is this\r\n\r\n",
    "nonsense": HEAD + chunk(b'data: {"choices": 7}\n\n') + b"0\r\n\r\n",
    "binary": HEAD + chunk(b"data: \xff\xfe{\n\n") + b"0\r\n\r\n",
    "list": HEAD + chunk(b"data: [1]\n\n") + b"0\r\n\r\n",
    "error": HEAD + chunk(b'data: {"error": {"message": "the runner failed"}}\n\n') + b"0\r\n\r\n",
    "unfinished": HEAD + chunk(event("word")) + b"0\r\n\r\n",
    "nothing": HEAD + b"0\r\n\r\n",
    "until-close": b"HTTP/1.1 200 OK\r\n\r\n" + event("a") + event("b", "stop") + usage(2),
    "one-token": HEAD + chunk(event("", "length")) + chunk(usage(1)) + b"0\r\n\r\n",
    "cut-lines": HEAD
    + b"".join(chunk(bytes([byte])) for byte in event("a").replace(b"\n", b"\r\n") + event("", "stop").rstrip())
    + b"0\r\n\r\n",
    "other-lines": HEAD
    + chunk(b": ping\r\n\r\n" + event("a").replace(b"\n", b"\r\n") + event("", "stop"))
    + b"0\r\n\r\n",
}
"""What the stub says to a prompt; it then closes the connection."""


class Stub:
    """Answers requests on its own thread. `bodies` contains the bodies of the requests that it received."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, object]] = []
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(f"http://127.0.0.1:{self.port}", "stub")

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(30)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)

    def _run(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            body = json.loads(await reader.readexactly(length))
            self.bodies.append(body)
            prompt = str(body["prompt"] if "prompt" in body else body["messages"][0]["content"])
            if prompt in ANSWERS:
                writer.write(ANSWERS[prompt])
            elif prompt == "silent":
                await reader.read()
            else:
                await self._generate(writer, int(body["max_tokens"]), is_chat="messages" in body)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _generate(self, writer: asyncio.StreamWriter, num_tokens: int, *, is_chat: bool) -> None:
        writer.write(HEAD)
        for number in range(num_tokens):
            await asyncio.sleep(GAP)
            reason = "length" if number == num_tokens - 1 else None
            part = event(f"w{number} ", reason)
            if is_chat:
                choice = {"index": 0, "delta": {"content": f"w{number} "}, "finish_reason": reason}
                part = b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"
            # An event may be split at any point.
            writer.write(chunk(part[:7]) + chunk(part[7:]))
            await writer.drain()
        writer.write(chunk(usage(num_tokens)) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")


@contextmanager
def running_stub() -> Iterator[Stub]:
    stub = Stub()
    stub.start()
    try:
        yield stub
    finally:
        stub.stop()
