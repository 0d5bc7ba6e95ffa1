"""What the tests of the server share: engines to serve, raw connections, and waiting for a condition."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import EngineConfig
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.llm_engine import LLMEngine
from serving.server import RunningServer

MODEL = "mini-vllm"
HELLO: Any = [{"role": "user", "content": "hello"}]
PATIENCE = 30.0
FAKE = EngineConfig(num_gpu_blocks=400, check_invariants=True)
Result = TypeVar("Result")


def fake_llm(config: EngineConfig = FAKE) -> AsyncLLM:
    """Return an engine on the fake model: it starts at once and needs no torch."""
    return AsyncLLM(build_engine(config, parse_lineup("solution:1-5")))


def call(llm: AsyncLLM, function: Callable[[LLMEngine], Result]) -> Result:
    """Run a function of the engine on its thread."""

    async def run() -> Result:
        return await llm.call(function)

    return asyncio.run(run())


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds; fail if it does not for a long time."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"not within {PATIENCE:g} seconds: {what}"
        time.sleep(0.01)


def wait_until_idle(llm: AsyncLLM) -> None:
    """Wait until no request is left, and check that every block is free."""
    wait_until(lambda: not call(llm, lambda engine: engine.processor.states), "no request is left in the engine")
    wait_until(lambda: llm.num_unfinished_requests == 0, "every reader has its last output")
    assert call(llm, free_blocks) == call(llm, lambda engine: engine.scheduler.kv.num_usable_blocks)


def free_blocks(engine: LLMEngine) -> int:
    return engine.scheduler.kv.num_free_blocks


def num_waiting(llm: AsyncLLM) -> int:
    return call(llm, lambda engine: len(engine.scheduler.waiting))


class RawConnection:
    """A connection on which a test sends what it likes."""

    def __init__(self, server: RunningServer, receive_buffer: int | None = None) -> None:
        host, port = server.address.removeprefix("http://").split(":")
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        self.socket.connect((host, int(port)))
        self.received = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def post(self, path: str, body: bytes, *headers: str) -> None:
        """Send a whole request."""
        self.send(head("POST", path, f"Content-Length: {len(body)}", "Content-Type: application/json", *headers) + body)

    def read_until(self, mark: bytes) -> bytes:
        """Return what was received up to and with a mark."""
        while mark not in self.received:
            data = self.socket.recv(65536)
            assert data, f"closed before {mark!r}: {self.received!r}"
            self.received += data
        end = self.received.index(mark) + len(mark)
        read, self.received = self.received[:end], self.received[end:]
        return read

    def read_answer(self) -> tuple[int, dict[str, str], Any]:
        """Return the status, the headers and the JSON of one answer."""
        lines = self.read_until(b"\r\n\r\n").decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        while len(self.received) < int(headers["content-length"]):
            data = self.socket.recv(65536)
            assert data, f"closed in the body: {self.received!r}"
            self.received += data
        size = int(headers["content-length"])
        body, self.received = self.received[:size], self.received[size:]
        return int(lines[0].split()[1]), headers, json.loads(body)

    def is_closed(self) -> bool:
        """Wait for the end of the connection; False if there is data instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.socket.close()


def head(method: str, path: str, *headers: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: test", *headers, "", ""]).encode()


def ask(**fields: Any) -> bytes:
    """Return the body of a chat request."""
    return json.dumps({"model": MODEL, "messages": HELLO} | fields).encode()


def hold(llm: AsyncLLM) -> threading.Event:
    """Keep the engine's thread from taking steps, also once it shuts down, until the event is set."""
    gate = threading.Event()
    threading.Thread(target=call, args=(llm, lambda engine: gate.wait(PATIENCE)), daemon=True).start()
    return gate
