"""Raw connections: half a request, an overlong request, no request at all, and a connection whose halves close
separately."""

import resource
import socket
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from mini_vllm_labs.serving import connection as connection_module
from tests.serving.running import CHAT, COMPLETION, RawConnection, ServerUnderTest, head, serving, wait_until

DEADLINE = 0.3
JSON = "Content-Type: application/json"


@pytest.fixture(scope="module")
def impatient() -> Iterator[ServerUnderTest]:
    limits: Any = {"max_header_bytes": 2000, "max_body_bytes": 10_000}
    with serving(header_timeout=DEADLINE, body_timeout=DEADLINE, send_timeout=DEADLINE, **limits) as server:
        yield server


@pytest.fixture
def connection(impatient: ServerUnderTest) -> Iterator[RawConnection]:
    with RawConnection(impatient) as connection:
        yield connection


MANY = [f"X-{number}: {'x' * 100}" for number in range(30)]


def test_a_silent_connection_is_closed(connection: RawConnection) -> None:
    assert connection.is_closed()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(b"POST /v1/chat/completions HTTP/1.1\r\nHost: te", (408, "header_timeout"), id="half a header"),
        pytest.param(head("GET", "/health", *MANY), (431, "header_too_large"), id="a large header"),
        (b"hello\r\n\r\n", (400, "invalid_http")),
        (b"\x16\x03\x01\x02\x00\x01\x00", (400, "invalid_http")),
        (b"GET / HTTP/9.9\r\n\r\n", (400, "invalid_http")),
        (b"\x00" * 50, (400, "invalid_http")),
        pytest.param(head("POST", CHAT, JSON, "Content-Length: 100") + b'{"m', (408, "body_timeout"), id="half a body"),
        pytest.param(head("POST", CHAT, JSON, "Content-Length: 100000"), (413, "body_too_large"), id="a large body"),
    ],
)
def test_a_request_over_a_limit_is_answered_and_its_connection_closed(
    connection: RawConnection, data: bytes, status: tuple[int, str]
) -> None:
    connection.send(data)
    assert connection.read_status() == status
    assert connection.is_closed()


def test_a_header_byte_by_byte_gains_no_time(connection: RawConnection) -> None:
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        send_slowly(connection, [b"G"] * 1000)


def send_slowly(connection: RawConnection, parts: Iterable[bytes]) -> None:
    for part in parts:
        connection.send(part)
        time.sleep(0.02)


@pytest.mark.parametrize("next_header", [b"", b"POST /tok"])
def test_a_connection_is_closed_if_its_next_request_does_not_come(
    connection: RawConnection, next_header: bytes
) -> None:
    connection.post("/tokenize", b'{"prompt": "x"}')
    assert connection.read_answer()[0] == 200
    connection.send(next_header)
    assert not next_header or connection.read_answer()[0] == 408
    assert connection.is_closed()


def test_a_connection_serves_several_requests_longer_than_its_deadline(connection: RawConnection) -> None:
    end = time.monotonic() + 3 * DEADLINE
    while time.monotonic() < end:
        connection.post("/tokenize", b'{"prompt": "x"}')
        assert connection.read_answer()[0] == 200
        time.sleep(0.01)


def test_an_answer_may_take_longer_than_the_deadlines(impatient: ServerUnderTest, connection: RawConnection) -> None:
    impatient.llm.pause()
    connection.ask(max_tokens=3)
    time.sleep(2 * DEADLINE)
    impatient.llm.resume()
    assert connection.read_answer()[0] == 200


def test_an_endless_header_is_refused(connection: RawConnection) -> None:
    connection.send(b"GET / HTTP/1.1\r\nX: " + b"x" * 12_000_000)
    assert connection.read_answer()[0] == 431, "a client that is still sending gets the answer, too"


def test_no_client_is_told_to_go_on_with_a_body_that_is_too_large(connection: RawConnection) -> None:
    connection.begin(CHAT, "Content-Length: 100000000", "Expect: 100-continue")
    assert connection.read_until(b"\r\n").startswith(b"HTTP/1.1 413")


def test_a_client_that_keeps_sending_still_gets_its_refusal(fake_server: ServerUnderTest) -> None:
    """A client that asks to close still gets the response: closing a socket with unread data would lose it."""
    connection = RawConnection(fake_server)
    size = 5_000_000
    connection.begin(CHAT, f"Content-Length: {size}", "Connection: close")
    for _ in range(10):
        connection.send(b" " * (size // 10))
        time.sleep(0.02)
    status, headers, answer = connection.read_answer()
    assert (status, answer["error"]["code"], headers["connection"]) == (413, "body_too_large", "close")
    assert connection.socket.recv(1) == b"", "closed, and not reset"


def test_a_client_that_never_stops_sending_is_cut_off(connection: RawConnection) -> None:
    connection.begin(CHAT, "Content-Length: 1000000000", "Connection: close")
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        send_slowly(connection, [b" " * 1000] * 1000)


def test_a_body_in_chunks_is_served(connection: RawConnection) -> None:
    connection.begin("/tokenize", "Transfer-Encoding: chunked")
    for part in (b'{"pro', b'mpt": ', b'"x"}'):
        connection.send(b"%x\r\n%s\r\n" % (len(part), part))
    connection.send(b"0\r\n\r\n")
    assert connection.read_answer()[2]["tokens"] == [120]


def test_100_megabytes_cost_no_memory() -> None:
    with serving() as server, RawConnection(server) as connection:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        connection.begin(CHAT, "Transfer-Encoding: chunked")
        part = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        for _ in range(100):
            connection.send(part)
        assert connection.read_answer()[0] == 413
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000, "kilobytes"


def test_a_thousand_half_open_connections_hold_up_no_client(fake_server: ServerUnderTest) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    half_open = []
    try:
        for number in range(1000):
            half_open.append(RawConnection(fake_server))
            if number % 2:
                half_open[-1].send(b"POST /v1/chat/completions HTTP/1.1\r\nHo")
        with RawConnection(fake_server) as connection:
            connection.ask(max_tokens=5)
            assert connection.read_answer()[0] == 200
    finally:
        for each in half_open:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_client_that_reads_nothing_is_cut_off(impatient: ServerUnderTest) -> None:
    connection = RawConnection(impatient, receive_buffer=4096)
    limit_send_buffers(impatient)
    connection.ask(COMPLETION, stream=True, n=50, max_tokens=100, logprobs=5)
    connection.read_until(b"data: ")
    wait_until(lambda: not impatient.llm.num_unfinished_requests, "the request is aborted")
    with pytest.raises((AssertionError, ConnectionResetError)):
        connection.read_until(b"[DONE]")
    connection.close()


def limit_send_buffers(server: ServerUnderTest) -> None:
    """Make the system buffer little of the server's output, so that the server soon waits for the client."""
    connections = server.server.server_state.connections
    wait_until(lambda: bool(connections), "the server has the connection")
    for connection in list(connections):
        connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)


def test_a_client_that_falls_silent_after_its_refusal_is_closed() -> None:
    with serving() as server, RawConnection(server) as connection:
        connection.begin(CHAT, "Content-Length: 5000000", "Connection: close")
        assert connection.read_answer()[0] == 413
        assert connection.is_closed(), "the half that writes"
        began = time.monotonic()
        wait_until(lambda: not server.server.server_state.connections, "the half that reads is closed, too")
        assert time.monotonic() - began < server.server.settings.header_timeout / 2


def test_connections_over_the_limit_of_files_are_refused_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """uvloop 0.23.0 would close connections over the limit silently (shown by
    `findings/uvloop_closes_without_descriptors.sh`)."""
    monkeypatch.setattr(connection_module, "num_free_files", lambda: connection_module.SPARE_FILES + 2)
    with serving() as server:
        held = [RawConnection(server) for _ in range(2)]
        for _ in range(5):
            with RawConnection(server) as connection:
                connection.send(head("GET", "/health"))
                assert connection.read_status() == (503, "too_many_connections")
        for connection in held:
            connection.send(head("GET", "/health"))
            assert connection.read_answer()[0] == 200
            connection.close()
        wait_until(lambda: server.post("/tokenize", prompt="x")[0] == 200, "there is room again")
    assert caplog.text.count("the server has 2 connections, as many as its limit of open files allows") == 1
