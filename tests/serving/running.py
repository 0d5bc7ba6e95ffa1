"""Shared code for the server's tests: servers to call, raw connections, and waiting for a condition."""

import asyncio
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from openai import OpenAI

from mini_vllm import EngineConfig, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm_labs.serving.server import RunningServer, running_server
from mini_vllm_labs.serving.settings import ServerSettings

MODEL = "mini-vllm"
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
HELLO: Any = [{"role": "user", "content": "hello"}]
PATIENCE = 30.0
FAKE = EngineConfig(num_gpu_blocks=400, check_invariants=True)
Result = TypeVar("Result")


def fake_llm(config: EngineConfig = FAKE) -> AsyncLLM:
    return AsyncLLM(build_engine(config, parse_lineup("solution:1-5")))


@contextmanager
def serving(engine: EngineConfig | AsyncLLM = FAKE, port: int = 0, **settings: Any) -> Iterator["ServerUnderTest"]:
    llm = engine if isinstance(engine, AsyncLLM) else fake_llm(engine)
    with running_server(llm, ServerSettings(port=port, **settings)) as server:
        yield ServerUnderTest(server.address, server.server, server.llm)


@contextmanager
def serve_command(*options: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    fake_model = ("--lineup", "solution:1-5", "--fake-model")
    command = [sys.executable, "-m", "mini_vllm_labs.cli", "serve", "--port", "0", *fake_model, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = ""
        while not (found := re.search(r"(http://\S+)/v1", said)):
            line = process.stdout.readline()
            assert line, "the command has ended"
            said += line
        assert "Whose code runs" in said
        try:
            yield process, found[1]
        finally:
            process.kill()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"not within {PATIENCE:g} seconds: {what}"
        time.sleep(0.01)


class ServerUnderTest(RunningServer):
    """A server in a thread of the tests, with methods that query it and its engine."""

    def client_of(self, **options: Any) -> OpenAI:
        """Return OpenAI's client for this server, which never retries."""
        defaults: dict[str, Any] = {"api_key": "none", "max_retries": 0, "timeout": PATIENCE}
        return OpenAI(base_url=self.base_url, **(defaults | options))

    def post(self, path: str, body: bytes | None = None, **fields: Any) -> tuple[int, Any]:
        with RawConnection(self) as connection:
            connection.post(path, json.dumps(fields).encode() if body is None else body)
            status, _, answer = connection.read_answer()
            return status, answer.get("error", answer)

    def status_of(self, method: str, path: str) -> tuple[int, str | None]:
        with RawConnection(self) as connection:
            connection.send(head(method, path))
            return connection.read_status()

    def call(self, function: Callable[[LLMEngine], Result]) -> Result:
        """Run a function on the engine's thread. The test's own thread may already be running a loop, namely
        playwright's."""

        async def run() -> Result:
            return await self.llm.call(function)

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, run()).result()

    def hold(self) -> threading.Event:
        """Keep the engine's thread from taking steps until the event is set, even after shutdown begins."""
        gate = threading.Event()
        threading.Thread(target=self.call, args=(lambda engine: gate.wait(PATIENCE),), daemon=True).start()
        return gate

    def step_once(self, number: int = 1) -> None:
        for _ in range(number):
            asyncio.run(self.llm.step_once())

    def ask_paused(self, path: str = CHAT, number: int = 1, **fields: Any) -> "list[RawConnection]":
        """Pause the engine and send it requests, all of which then wait."""
        self.llm.pause()
        before = self.call(lambda engine: len(engine.scheduler.waiting))
        connections = [RawConnection(self) for _ in range(number)]
        for connection in connections:
            connection.ask(path, **fields)
        self.wait_for_waiting(before + number * int(fields.get("n", 1)))
        return connections

    def wait_for_waiting(self, number: int) -> None:
        wait_until(lambda: self.call(lambda engine: len(engine.scheduler.waiting)) == number, f"{number} requests wait")

    def wait_until_idle(self) -> None:
        """Wait until no request is left, and check that every block is free."""
        wait_until(lambda: not self.call(lambda engine: engine.processor.states), "no request is left in the engine")
        wait_until(lambda: self.llm.num_unfinished_requests == 0, "every reader has its last output")
        assert self.call(num_used_blocks) == 0


def num_used_blocks(engine: LLMEngine) -> int:
    return engine.scheduler.kv.num_usable_blocks - engine.scheduler.kv.num_free_blocks


class RawConnection:
    """A connection over which a test can send arbitrary bytes."""

    def __init__(self, server: RunningServer, receive_buffer: int | None = None) -> None:
        host, port = server.address.removeprefix("http://").split(":")
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        self.socket.connect((host, int(port)))
        self.received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def begin(self, path: str, *headers: str, body: bytes = b"") -> None:
        self.send(head("POST", path, "Content-Type: application/json", *headers) + body)

    def post(self, path: str, body: bytes, *headers: str) -> None:
        self.begin(path, f"Content-Length: {len(body)}", *headers, body=body)

    def ask(self, path: str = CHAT, **fields: Any) -> None:
        prompt = {"messages": HELLO} if path == CHAT else {"prompt": "abc"}
        self.post(path, json.dumps({"model": MODEL} | prompt | fields).encode())

    def read_until(self, mark: bytes) -> bytes:
        while mark not in self.received:
            self._receive(f"before {mark!r}")
        return self._take(self.received.index(mark) + len(mark))

    def read_answer(self) -> tuple[int, dict[str, str], Any]:
        lines = self.read_until(b"\r\n\r\n").decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        while len(self.received) < int(headers["content-length"]):
            self._receive("in the body")
        return int(lines[0].split()[1]), headers, json.loads(self._take(int(headers["content-length"])))

    def read_status(self) -> tuple[int, str | None]:
        status, _, answer = self.read_answer()
        return status, answer.get("error", {}).get("code")

    def is_closed(self) -> bool:
        """Wait for the connection to end; return False if data arrives instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.socket.close()

    def _receive(self, where: str) -> None:
        data = self.socket.recv(65536)
        assert data, f"closed {where}: {self.received!r}"
        self.received += data

    def _take(self, size: int) -> bytes:
        taken, self.received = self.received[:size], self.received[size:]
        return taken


def head(method: str, path: str, *headers: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()
