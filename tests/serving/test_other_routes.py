"""Tests the routes for tokens and text, API keys, a client's own request names, and the settings."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI

from mini_vllm import LLM, EngineConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm_labs.serving.settings import ServerSettings
from tests.serving.running import (
    CHAT,
    COMPLETION,
    HELLO,
    MODEL,
    RawConnection,
    ServerUnderTest,
    head,
    serving,
    wait_until,
)


def test_tokens_of_a_text(fake_server: ServerUnderTest) -> None:
    asked: dict[str, Any] = {"model": MODEL, "prompt": "ab", "return_token_strs": True, "add_special_tokens": True}
    answer = {"count": 2, "max_model_len": 2048, "tokens": [97, 98], "token_strs": ["a", "b"]}
    assert fake_server.post("/tokenize", **asked) == (200, answer)


def test_tokens_of_a_chat_equal_the_computed_ones(
    embedded_server: ServerUnderTest, embedded: OpenAI, offline: LLM
) -> None:
    answer = embedded_server.post("/tokenize", messages=HELLO)[1]
    assert answer["tokens"] == offline.engine.tokenizer.apply_chat_template(HELLO)
    usage = embedded.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=1).usage
    assert usage is not None
    assert usage.prompt_tokens == answer["count"]


def test_a_long_text_has_the_same_tokens(embedded_server: ServerUnderTest, offline: LLM) -> None:
    text = "One day, a girl went to the village. " * 100
    assert embedded_server.post("/tokenize", prompt=text)[1]["tokens"] == offline.engine.tokenizer.encode(text)


def test_tokens_become_text_again(embedded_server: ServerUnderTest) -> None:
    tokens = embedded_server.post("/tokenize", prompt="a red kite")[1]["tokens"]
    assert embedded_server.post("/detokenize", tokens=tokens) == (200, {"prompt": "a red kite"})


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", b"{}", "prompt"),
        ("/tokenize", b'{"prompt": "x", "messages": [{"role": "user", "content": "x"}]}', "prompt"),
        ("/tokenize", b'{"prompt": "x", "add_special_tokens": false}', "add_special_tokens"),
        ("/tokenize", b'{"prompt": ["x"]}', "prompt"),
        ("/tokenize", b'{"prompt": "x", "model": "other"}', "model"),
        ("/detokenize", b"{}", "tokens"),
        ("/detokenize", b'{"tokens": "x"}', "tokens"),
        ("/detokenize", b'{"tokens": [-1]}', "tokens.0"),
        ("/detokenize", b'{"tokens": [1e400]}', "tokens.0"),
        ("/detokenize", b'{"tokens": [99999999999999999999999]}', "tokens"),
    ],
)
def test_wrong_requests_for_tokens(embedded_server: ServerUnderTest, path: str, body: bytes, param: str) -> None:
    status, error = embedded_server.post(path, body)
    assert (status, error["param"]) == (404 if param == "model" else 400, param)


@pytest.fixture(scope="module")
def locked() -> Iterator[ServerUnderTest]:
    with serving(api_key="sesame", model_name="m") as server:
        yield server


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/m", "/v1/completions", "/v1/chat/completions", "/tokenize"])
@pytest.mark.parametrize("key", [None, "Bearer wrong", "Bearer sesam", "Basic sesame", "sesame", "Bearer"])
def test_without_the_key_every_route_is_refused(locked: ServerUnderTest, path: str, key: str | None) -> None:
    with RawConnection(locked) as connection:
        method = "GET" if "models" in path else "POST"
        connection.send(head(method, path, *([] if key is None else [f"Authorization: {key}"])))
        status, headers, answer = connection.read_answer()
        assert (status, answer["error"]["code"], headers["www-authenticate"]) == (401, "invalid_api_key", "Bearer")


def test_with_the_key_requests_are_served(locked: ServerUnderTest) -> None:
    with locked.client_of(api_key="sesame") as client:
        assert client.models.list().data[0].id == "m"
        assert client.completions.create(model="m", prompt="x").choices[0].finish_reason == "length"
    with locked.client_of(api_key="other") as client, pytest.raises(openai.AuthenticationError):
        client.models.list()
    assert locked.status_of("GET", "/health")[0] == 200, "a balancer has no key"


def test_a_priority_decides_under_the_priority_policy() -> None:
    with serving(EngineConfig(policy="priority")) as server, server.client_of() as client:
        answer = client.completions.create(model=MODEL, prompt="x", max_tokens=2, extra_body={"priority": -3})
        assert answer.choices[0].finish_reason == "length"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("port", -1), ("port", 65536), ("header_timeout", 0), ("body_timeout", float("nan")), ("send_timeout", -1),
        ("request_timeout", 0), ("shutdown_timeout", -1), ("shutdown_timeout", float("inf")), ("max_body_bytes", 0),
        ("max_header_bytes", 0), ("max_choices", 0), ("model_name", ""), ("api_key", ""), ("api_key", "ключ"),
        *(("allowed_hosts", (host,)) for host in ("", "http://lab.example", "x:80", "::1", "a@b", "a,b", "*.a")),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(setting: str, value: Any) -> None:
    with pytest.raises(ValueError, match=setting):
        ServerSettings(**{setting: value})


LONG = {"model": MODEL, "messages": HELLO, "max_tokens": 1500, "ignore_eos": True, "stream": True}


def named(server: ServerUnderTest, name: str, path: str = COMPLETION, **fields: object) -> httpx.Response:
    asks = {"messages": HELLO} if path == CHAT else {"prompt": "abcd"}
    body = {"model": MODEL, **asks, "max_tokens": 3, **fields}
    return httpx.post(server.address + path, json=body, headers={b"X-Request-Id": name.encode("latin-1")})


@pytest.mark.parametrize(
    ("path", "prefix", "kind"), [(CHAT, "chatcmpl", "chat.completion"), (COMPLETION, "cmpl", "text_completion")]
)
def test_an_answer_s_id_ends_with_the_name(fake_server: ServerUnderTest, path: str, prefix: str, kind: str) -> None:
    answer = named(fake_server, "mina-1.a:b_C", path).json()
    assert (answer["id"], answer["object"]) == (f"{prefix}-mina-1.a:b_C", kind)
    chunks = named(fake_server, "mina-2", path, stream=True).text.split("\n\n")
    assert sum(f'"id":"{prefix}-mina-2"' in chunk for chunk in chunks) == len(chunks) - 2, "all but [DONE] and the end"


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a?b", "a%20b", "<b>", "a" * 129, "kite\u00e9"])
def test_a_name_that_could_not_stand_in_a_url_is_refused(fake_server: ServerUnderTest, name: str) -> None:
    answer = named(fake_server, name)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "X-Request-Id")
    assert "1 to 128 letters" in error["message"]


def test_a_name_in_use_is_refused_and_its_request_goes_on(fake_server: ServerUnderTest) -> None:
    url, headers = fake_server.address + CHAT, {"X-Request-Id": "twice"}
    with httpx.stream("POST", url, json=LONG, headers=headers) as stream:
        lines = stream.iter_lines()
        next(lines)
        refused = named(fake_server, "twice", CHAT)
        assert refused.status_code == 409, "OpenAI's client tries again"
        assert refused.json()["error"]["param"] == "X-Request-Id"
        assert "'chatcmpl-twice-0'" in refused.json()["error"]["message"]
        assert named(fake_server, "once", CHAT).status_code == 200
        assert [line for line in lines if line][-1] == "data: [DONE]"
    assert named(fake_server, "twice", CHAT).status_code == 200, "a name is free again after its request"


def has_request(name: str, engine: LLMEngine) -> bool:
    return name in engine.scheduler.requests


def test_a_waiting_request_becomes_urgent() -> None:
    with serving(EngineConfig(max_num_seqs=1, policy="priority")) as server, server.client_of() as client:
        finished: list[str] = []

        def ask(name: str, max_tokens: int) -> None:
            id_of_client = {"X-Request-Id": name}
            client.completions.create(model=MODEL, prompt="x", max_tokens=max_tokens, extra_headers=id_of_client)
            finished.append(name)

        server.llm.pause()
        with ThreadPoolExecutor(3) as pool:
            for name, max_tokens in (("first", 500), ("second", 500), ("third", 500)):
                pool.submit(ask, name, max_tokens)
                there = partial(has_request, f"cmpl-{name}-0")
                wait_until(partial(server.call, there), f"{name} is queued")
            assert server.post("/v1/requests/cmpl-third/priority", priority=-1)[0] == 200
            server.llm.resume()
        assert finished == ["third", "first", "second"]
        assert server.post("/v1/requests/cmpl-third/priority", priority=1)[0] == 404
        status, error = server.post("/v1/requests/cmpl-third/priority", priority="high")
        assert (status, error["param"]) == (400, "priority")


def test_a_server_without_priorities_says_so(fake_server: ServerUnderTest) -> None:
    status, error = fake_server.post("/v1/requests/chatcmpl-none/priority", priority=1)
    assert status == 400
    assert "--scheduling-policy priority" in error["message"]
