"""An HTTP/1.0 client reads whole responses without chunk lengths; a client that offers HTTP/2 gets an HTTP/1.1
response."""

import json
from collections.abc import Iterator

import pytest

from mini_vllm.engine.engine_thread import MAX_REASON, shortened
from tests.serving.running import CHAT, HELLO, MODEL, RawConnection, ServerUnderTest, serving


@pytest.fixture(scope="module")
def server() -> Iterator[ServerUnderTest]:
    with serving() as server:
        yield server


def answer_of(server: ServerUnderTest, request: str, body: bytes = b"") -> tuple[int, bytes]:
    """Return the status and everything after the header, up to the end of the connection."""
    length = f"Content-Length: {len(body)}"
    with RawConnection(server) as connection:
        lines = [request, "Host: localhost", "Content-Type: application/json", length, "Connection: close", "", ""]
        connection.send("\r\n".join(lines).encode() + body)
        status = int(connection.read_until(b"\r\n\r\n").split()[1])
        while data := connection.socket.recv(65536):
            connection.received += data
        return status, connection.received


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_whole_and_without_chunk_lengths(server: ServerUnderTest, stream: bool) -> None:
    body = json.dumps({"model": MODEL, "messages": HELLO, "max_tokens": 5, "temperature": 0, "stream": stream})
    status, text = answer_of(server, f"POST {CHAT} HTTP/1.0", body.encode())
    assert status == 200
    if stream:
        events = [event for event in text.decode().split("\n\n") if event]
        assert all(event.startswith("data: ") for event in events)
        assert events[-1] == "data: [DONE]"
    else:
        assert json.loads(text)["usage"]["completion_tokens"] == 5


@pytest.mark.parametrize("offer", ["Upgrade: h2c\r\nX: 1", "X: 1\r\nupgrade:h2c"])
def test_an_offer_of_http_2_is_ignored_and_the_body_is_read(server: ServerUnderTest, offer: str) -> None:
    """uvicorn 0.54.0 with httptools 0.9.0 loses the request body: `findings/uvicorn_body_after_h2c_offer.sh`; RFC 9110,
    7.8."""
    body = json.dumps({"messages": HELLO, "max_tokens": 5}).encode()
    with RawConnection(server) as connection:
        for _ in range(2):  # the connection stays open
            connection.post(CHAT, body, "Connection: Upgrade, HTTP2-Settings", offer)
            status, _headers, answer = connection.read_answer()
            assert (status, answer["usage"]["completion_tokens"]) == (200, 5)


def test_a_stream_without_an_end_is_refused(server: ServerUnderTest) -> None:
    status, text = answer_of(server, "GET /live/stream HTTP/1.0")
    assert (status, json.loads(text)["error"]["code"]) == (505, "http_version_not_supported")


def test_a_clients_error_is_short_whatever_a_learners_code_raises() -> None:
    assert shortened("ValueError: no") == "ValueError: no"
    assert shortened("x" * 50_000_000) == "x" * MAX_REASON + " ... (49,998,000 more characters)"
