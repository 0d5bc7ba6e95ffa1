"""Tests the responses from the page's routes, without a browser."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from mini_vllm_labs.serving.live.open_pages import MAX_PAGES
from tests.serving.page.conftest import next_of, watching
from tests.serving.running import HELLO, MODEL, PATIENCE, ServerUnderTest, wait_until


@pytest.fixture
def http(server: ServerUnderTest) -> Iterator[httpx.Client]:
    """A client of a server without an open page."""
    with httpx.Client(base_url=server.address, timeout=PATIENCE) as client:
        wait_until(lambda: client.get("/live/bills/any").status_code == 409, "all pages are closed")
        yield client


def chat(http: httpx.Client, max_tokens: int = 8) -> str:
    body = {"model": MODEL, "messages": HELLO, "max_tokens": max_tokens}
    return str(http.post("/v1/chat/completions", json=body).json()["id"])


def test_the_page_comes_with_its_files_and_from_nowhere_else(http: httpx.Client) -> None:
    page = http.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    files = [part.split('"')[0] for part in page.text.split("live/page/")[1:]]
    assert "page.js" in files
    for name in [*files, "shared.js", "engine.js", "chat.js"]:
        answer = http.get(f"/live/page/{name}")
        assert answer.status_code == 200
        assert "http://" not in answer.text.replace("http://www.w3.org", "")
        assert "https://" not in answer.text
    assert http.get("/live/page/..%2f..%2froutes.py").status_code == 404
    assert http.get("/live/page/nothing.js").json()["error"]["code"] == "not_found"


def test_files_are_short_modules(http: httpx.Client) -> None:
    page = http.get("/").text
    assert 'type="module"' in page
    for name in ("engine", "chats", "chat", "answer", "picture", "controls", "connection", "api", "page", "look"):
        assert len(http.get(f"/live/page/{name}.js").text.splitlines()) <= 200


def test_a_stream_begins_with_the_facts_and_sends_whole_pictures_once(fresh_server: ServerUnderTest) -> None:
    with httpx.Client(base_url=fresh_server.address) as http, watching(http, width=720, height=400) as stream:
        hello = next_of(stream, "hello")
        assert (hello["num_blocks"], hello["block_size"], hello["most_running"]) == (120, 16, 4)
        request_id = f"{chat(http)}-0"
        first = next_of(stream, "picture")
        assert first["svg"].startswith("<svg")
        assert {"budget", "running", "waiting", "block-1", "free-0", "timeline-rows"} <= first["layers"].keys()
        shown = first["figures"]["step"]
        look = {"viewer": hello["viewer"], "step": max(0, shown - 1), "width": 720, "height": 400}
        assert http.post("/live/look", json=look).status_code == 200
        second = next_of(stream, "picture")
        assert "svg" not in second
        assert second["figures"]["step"] == max(0, shown - 1)
        assert second["layers"].keys() <= first["layers"].keys()
        names = first["requests"] | second["requests"]
        assert names[request_id][1].isalpha()
        bill = http.get(f"/live/bills/{request_id}").json()
        assert bill["num_output_tokens"] == 8
        assert http.get("/live/bills/nobody").json() is None


def test_a_stream_reports_every_change_of_pace_and_crowd(http: httpx.Client, server: ServerUnderTest) -> None:
    with watching(http) as stream:
        assert next_of(stream, "status")["steps_per_second"] is None
        for pace in (0, 5, None):
            assert http.post("/live/pace", json={"steps_per_second": pace}).json()["steps_per_second"] == pace
            assert next_of(stream, "status")["steps_per_second"] == pace
            assert server.llm.is_paused is (pace is not None)
        assert http.post("/live/step", json={}).json()["steps_per_second"] == 0, "a single step holds the engine"
        assert http.post("/live/crowd", json={"requests_per_second": 50}).status_code == 200
        for kind, data in stream:
            if kind == "status" and data["num_arrived"] >= 3:
                break
        assert data["newest"] == next_of(stream, "status")["newest"], "nothing is computed meanwhile"
    wait_until(lambda: not server.llm.is_paused, "the engine goes on without a page")
    wait_until(lambda: server.llm.num_unfinished_requests == 0, "the crowd has gone")


REFUSED = [
    ("/live/pace", {"steps_per_second": -1}, "steps_per_second"),
    ("/live/pace", {"steps_per_second": 1000}, "steps_per_second"),
    ("/live/pace", {}, "steps_per_second"),
    ("/live/crowd", {"requests_per_second": 51}, "requests_per_second"),
    ("/live/crowd", {"requests_per_second": "many"}, "requests_per_second"),
    ("/live/step", {"number": 2}, "number"),
    ("/live/look", {"viewer": "x", "width": 10, "height": 400}, "width"),
    ("/live/look", {"viewer": "x", "width": 720, "height": 400, "step": -1}, "step"),
]


@pytest.mark.parametrize(("path", "body", "param"), REFUSED)
def test_what_is_out_of_range_is_refused_by_name(http: httpx.Client, path: str, body: Any, param: str) -> None:
    with watching(http) as stream:
        next_of(stream, "hello")
        answer = http.post(path, json=body)
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == param


def test_nothing_holds_the_engine_without_a_page_and_no_foreign_page_can(http: httpx.Client) -> None:
    for path, body in (("pace", {"steps_per_second": 0}), ("step", {}), ("crowd", {"requests_per_second": 1})):
        assert http.post(f"/live/{path}", json=body).status_code == 409
    look = {"viewer": "gone", "width": 720, "height": 400}
    assert http.post("/live/look", json=look).json()["error"]["code"] == "page_not_open"
    with watching(http) as stream:
        next_of(stream, "hello")
        plain = {"Content-Type": "text/plain"}
        assert http.post("/live/pace", content=b'{"steps_per_second":0}', headers=plain).status_code == 415


def test_a_stream_for_an_impossible_size_is_refused(http: httpx.Client) -> None:
    answer = http.get("/live/stream", params={"width": 5})
    assert answer.status_code in (400, 422)


def test_the_number_of_open_pages_is_limited(http: httpx.Client, server: ServerUnderTest) -> None:
    clients = [httpx.Client(base_url=server.address, timeout=PATIENCE) for _ in range(MAX_PAGES)]
    streams = [client.stream("GET", "/live/stream") for client in clients]
    for stream in streams:
        assert stream.__enter__().status_code == 200
    refused = http.get("/live/stream")
    assert refused.status_code == 503
    assert "close one" in refused.json()["error"]["message"]
    for stream, client in zip(streams, clients, strict=True):
        stream.__exit__(None, None, None)
        client.close()

    def has_room() -> bool:
        with http.stream("GET", "/live/stream") as again:
            return again.status_code == 200

    wait_until(has_room, "a page that was closed makes room")


def test_with_a_key_the_page_is_open_and_the_rest_is_not(locked_server: ServerUnderTest) -> None:
    with httpx.Client(base_url=locked_server.address, timeout=PATIENCE) as http:
        assert http.get("/").status_code == 200
        assert http.get("/live/page/page.js").status_code == 200
        assert http.get("/live/stream").status_code == 401
        assert http.get("/live/bills/x").status_code == 401
        for path in ("look", "pace", "step", "crowd"):
            assert http.post(f"/live/{path}", json={}).status_code == 401
        http.headers["Authorization"] = "Bearer sesame"
        with watching(http) as stream:
            assert next_of(stream, "hello")["model"] == MODEL
