"""Shutting down a server: new requests are refused, running ones may finish, the rest get an error, and nothing
hangs."""

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from openai import OpenAI

from tests.serving.running import (
    COMPLETION,
    HELLO,
    MODEL,
    PATIENCE,
    RawConnection,
    ServerUnderTest,
    fake_llm,
    head,
    serve_command,
    serving,
    wait_until,
)


@pytest.fixture
def server() -> Iterator[ServerUnderTest]:
    with serving(shutdown_timeout=PATIENCE) as server:
        yield server


def idle_connection(server: ServerUnderTest) -> RawConnection:
    """Return a connection that has received one answer."""
    connection = RawConnection(server)
    connection.post("/tokenize", b'{"prompt": "x"}')
    assert connection.read_answer()[0] == 200
    return connection


def test_running_requests_finish_and_new_ones_are_refused(server: ServerUnderTest) -> None:
    idle, other = idle_connection(server), idle_connection(server)
    [busy] = server.ask_paused(max_tokens=30)
    gate = begin_to_end(server)
    idle.ask(max_tokens=3)
    status, headers, answer = idle.read_answer()
    assert (status, answer["error"]["code"]) == (503, "shutting_down")
    assert int(headers["retry-after"]) > 0
    assert headers["connection"] == "close"
    other.send(head("GET", "/health"))
    assert other.read_answer()[0] == 503
    wait_until(lambda: not is_listening(server), "the listening socket is closed")
    gate.set()
    status, _, answer = busy.read_answer()
    assert (status, answer["choices"][0]["finish_reason"]) == (200, "length")
    assert idle.is_closed()
    assert busy.is_closed()


def is_listening(server: ServerUnderTest) -> bool:
    try:
        RawConnection(server).close()
    except ConnectionRefusedError:
        return False
    return True


def begin_to_end(server: ServerUnderTest) -> threading.Event:
    """Tell a server to shut down; its engine takes no further step until the event is set."""
    gate = server.hold()
    server.server.should_exit = True
    wait_until(lambda: server.llm.is_shutting_down, "the shutdown has begun")
    return gate


def test_requests_not_finished_in_time_are_aborted_and_say_so() -> None:
    with serving(shutdown_timeout=0) as server:
        [stream] = server.ask_paused(stream=True, max_tokens=2000)
        [whole] = server.ask_paused(max_tokens=2000)
        server.step_once(3)
        stream.read_until(b'"content":"')
        begin_to_end(server).set()
        assert b'"finish_reason":"abort"' in stream.read_until(b"data: [DONE]")
        status, _, answer = whole.read_answer()
        assert (status, answer["choices"][0]["finish_reason"]) == (200, "abort")
        assert len(answer["choices"][0]["message"]["content"]) == 3


def test_a_client_that_reads_nothing_does_not_hold_up_the_end() -> None:
    with serving(shutdown_timeout=0.5) as server:
        connection = RawConnection(server, receive_buffer=4096)
        connection.ask(COMPLETION, stream=True, n=50, max_tokens=100, logprobs=5)
        connection.read_until(b"data: ")
        began = time.monotonic()
    assert time.monotonic() - began < PATIENCE
    connection.close()


def test_an_idle_connection_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mini_vllm_labs.serving.server.LAST_EVENTS_SECONDS", 2 * PATIENCE)
    with serving(header_timeout=2 * PATIENCE) as server:
        connection = idle_connection(server)
        server.server.should_exit = True
        assert connection.is_closed()


def test_a_second_signal_ends_at_once(server: ServerUnderTest) -> None:
    [connection] = server.ask_paused()
    gate = server.hold()
    server.server.handle_exit(signal.SIGINT, None)
    wait_until(lambda: server.llm.is_shutting_down, "the shutdown has begun")
    server.server.handle_exit(signal.SIGINT, None)
    assert connection.is_closed()
    gate.set()


def test_an_engine_that_is_stuck_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mini_vllm.engine.async_llm.SECONDS_FOR_LAST_STEP", 0.2)
    with serving(shutdown_timeout=0) as server:
        [connection] = server.ask_paused()
        gate = server.hold()
        server.server.should_exit = True
        assert connection.read_status() == (503, "engine_dead")
        assert connection.is_closed()
        gate.set()


def test_an_engine_ends_with_its_server() -> None:
    llm, threads = fake_llm(), threading.active_count()
    with serving(llm):
        assert llm.is_alive
    assert not llm.is_alive
    assert threading.active_count() < threads


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM that a process could handle")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_the_middle_of_a_stream(number: signal.Signals) -> None:
    with serve_command() as (process, address):
        with OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
            chunks = client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=1500, stream=True)
            next(iter(chunks))
            process.send_signal(number)
            assert [*chunks][-1].choices[0].finish_reason == "length", "it was given the time to finish"
        assert process.wait(PATIENCE) == 0
        # long enough to make progress on a busy machine
        errors = [line for line in process.stderr or () if not line.startswith("[")]
        assert errors == []
