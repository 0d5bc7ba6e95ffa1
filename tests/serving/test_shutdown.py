"""The end of a server: no new requests, running ones may finish, the rest is told, and nothing hangs."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from openai import OpenAI

from serving.server import RunningServer, running_server
from serving.settings import ServerSettings
from tests.serving.running import HELLO, MODEL, PATIENCE, RawConnection, ask, fake_llm, hold, num_waiting, wait_until

SERVE = [sys.executable, "-m", "cli", "serve", "--port", "0", "--lineup", "solution:1-5", "--fake-model"]


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with running_server(fake_llm(), ServerSettings(port=0, shutdown_timeout=PATIENCE)) as server:
        yield server


def test_running_requests_finish_and_new_ones_are_refused(server: RunningServer) -> None:
    idle, busy = RawConnection(server), RawConnection(server)
    idle.post("/tokenize", b'{"prompt": "x"}')
    assert idle.read_answer()[0] == 200
    server.llm.pause()
    busy.post("/v1/chat/completions", ask(max_tokens=30))
    wait_until(lambda: num_waiting(server.llm) == 1, "the request waits")
    gate = begin_to_end(server)

    idle.post("/v1/chat/completions", ask(max_tokens=3))
    status, headers, answer = idle.read_answer()
    assert (status, answer["error"]["code"]) == (503, "shutting_down")
    assert int(headers["retry-after"]) > 0
    assert headers["connection"] == "close"
    wait_until(lambda: not is_listening(server), "the listening socket is closed")
    gate.set()
    status, _, answer = busy.read_answer()
    assert (status, answer["choices"][0]["finish_reason"]) == (200, "length")
    assert idle.is_closed()
    assert busy.is_closed()


def test_health_says_that_the_server_ends(server: RunningServer) -> None:
    connection = RawConnection(server)
    connection.send(b"GET /health HTTP/1.1\r\nHost: test\r\n\r\n")
    assert connection.read_answer()[0] == 200
    server.llm.pause()
    other = RawConnection(server)
    other.post("/v1/chat/completions", ask(max_tokens=3))
    wait_until(lambda: num_waiting(server.llm) == 1, "the request waits")
    gate = begin_to_end(server)
    connection.send(b"GET /health HTTP/1.1\r\nHost: test\r\n\r\n")
    assert connection.read_answer()[0] == 503
    gate.set()
    assert other.read_answer()[0] == 200


def is_listening(server: RunningServer) -> bool:
    try:
        RawConnection(server).close()
    except ConnectionRefusedError:
        return False
    return True


def begin_to_end(server: RunningServer) -> threading.Event:
    """Tell a server to end; its engine takes no further step until the event is set."""
    gate = hold(server.llm)
    server.server.should_exit = True
    wait_until(lambda: server.llm.is_shutting_down, "the shutdown has begun")
    return gate


def test_what_is_not_finished_in_time_is_aborted_and_told_so() -> None:
    with running_server(fake_llm(), ServerSettings(port=0, shutdown_timeout=0)) as server:
        stream, whole = RawConnection(server), RawConnection(server)
        server.llm.pause()
        stream.post("/v1/chat/completions", ask(stream=True, max_tokens=2000))
        whole.post("/v1/chat/completions", ask(max_tokens=2000))
        wait_until(lambda: num_waiting(server.llm) == 2, "both requests wait")
        for _ in range(3):
            asyncio.run(server.llm.step_once())
        stream.read_until(b'"content":"')
        begin_to_end(server).set()
        assert b'"finish_reason":"abort"' in stream.read_until(b"data: [DONE]")
        status, _, answer = whole.read_answer()
        assert (status, answer["choices"][0]["finish_reason"]) == (200, "abort")
        assert len(answer["choices"][0]["message"]["content"]) == 3


def test_a_client_that_reads_nothing_does_not_hold_up_the_end() -> None:
    with running_server(fake_llm(), ServerSettings(port=0, shutdown_timeout=0.5)) as server:
        connection = RawConnection(server, receive_buffer=4096)
        fields = {"stream": True, "n": 50, "max_tokens": 100, "logprobs": 5, "prompt": "x"}
        connection.post("/v1/completions", json.dumps(fields).encode())
        connection.read_until(b"data: ")
        began = time.monotonic()
    assert time.monotonic() - began < PATIENCE
    connection.close()


def test_an_idle_connection_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.server.LAST_EVENTS_SECONDS", 2 * PATIENCE)
    with running_server(fake_llm(), ServerSettings(port=0, header_timeout=2 * PATIENCE)) as server:
        connection = RawConnection(server)
        connection.post("/tokenize", b'{"prompt": "x"}')
        assert connection.read_answer()[0] == 200
        server.server.should_exit = True
        assert connection.is_closed()


def test_a_second_signal_ends_at_once() -> None:
    with running_server(fake_llm(), ServerSettings(port=0, shutdown_timeout=PATIENCE)) as server:
        connection = RawConnection(server)
        server.llm.pause()
        connection.post("/v1/chat/completions", ask())
        wait_until(lambda: num_waiting(server.llm) == 1, "the request waits")
        gate = hold(server.llm)
        server.server.handle_exit(signal.SIGINT, None)
        wait_until(lambda: server.llm.is_shutting_down, "the shutdown has begun")
        server.server.handle_exit(signal.SIGINT, None)
        assert connection.is_closed()
        gate.set()


def test_an_engine_that_is_stuck_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mini_vllm.engine.async_llm.SECONDS_FOR_LAST_STEP", 0.2)
    with running_server(fake_llm(), ServerSettings(port=0, shutdown_timeout=0)) as server:
        connection = RawConnection(server)
        server.llm.pause()
        connection.post("/v1/chat/completions", ask())
        wait_until(lambda: num_waiting(server.llm) == 1, "the request waits")
        gate = hold(server.llm)
        server.server.should_exit = True
        status, _, answer = connection.read_answer()
        assert (status, answer["error"]["code"]) == (503, "engine_dead")
        assert connection.is_closed()
        gate.set()


def test_an_engine_ends_with_its_server() -> None:
    llm, threads = fake_llm(), threading.active_count()
    with running_server(llm):
        assert llm.is_alive
    assert not llm.is_alive
    assert threading.active_count() < threads


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM that a process could handle")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_the_middle_of_a_stream(number: signal.Signals) -> None:
    with subprocess.Popen(SERVE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = ""
        while not (found := re.search(r"(http://\S+)/v1", said)):
            said += process.stdout.readline()
        assert "Whose code runs" in said
        with OpenAI(base_url=f"{found[1]}/v1", api_key="none", max_retries=0) as client:
            chunks = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=1500, stream=True)
            first = next(iter(chunks))
            process.send_signal(number)
            reasons = [first.choices[0].finish_reason, *(chunk.choices[0].finish_reason for chunk in chunks)]
        assert reasons[-1] == "length", "it was given the time to finish"
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == ""
