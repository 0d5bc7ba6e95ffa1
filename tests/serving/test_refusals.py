"""The server rejects invalid requests with the right status, and names the field. No field is ignored."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.serving.running import CHAT, COMPLETION, HELLO, MODEL, RawConnection, ServerUnderTest, head

TOO_LONG = "context_length_exceeded"
# litellm 1.110.2 recognises these errors by their wording (`is_error_str_context_window_exceeded`), not by their code.
CONTEXT = "This model's maximum context length is 2048 tokens. However, you requested"
CASES: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("refusals.yaml").read_text(encoding="utf-8"))
WRONG_PROMPTS: list[Any] = [
    5, None, [], {}, [1.5], [-1], [True], ["a", 1], [[1], "a"], [[]], [[1], []], "", "x" * 2048, [1000], [10**30],
]  # fmt: skip


def ids(case: Any) -> str:
    return json.dumps(case)[:60]


WRONG_FIELDS = [(path, *wrong) for path in (CHAT, COMPLETION) for wrong in CASES["wrong_in_both"]]
WRONG_FIELDS += [(CHAT, *wrong) for wrong in CASES["wrong_in_chats"]]


@pytest.mark.parametrize(("path", "name", "value"), WRONG_FIELDS, ids=ids)
def test_a_wrong_value_is_refused_by_its_name(fake_server: ServerUnderTest, path: str, name: str, value: Any) -> None:
    prompt: dict[str, Any] = {"messages": HELLO} if path == CHAT else {"prompt": "hello"}
    status, error = fake_server.post(path, **({"max_tokens": 5} | prompt | {name: value}))
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert error["param"].split(".")[0] == name
    assert name in error["message"]


@pytest.mark.parametrize(("param", "value"), CASES["wrong_messages"], ids=ids)
def test_a_wrong_message_is_refused_by_its_place(fake_server: ServerUnderTest, param: str, value: Any) -> None:
    messages = value if param == "messages" else [value]
    status, error = fake_server.post(CHAT, messages=messages)
    assert (status, error["param"]) == (400, param)


@pytest.mark.parametrize("prompt", WRONG_PROMPTS, ids=ids)
def test_a_wrong_prompt_is_refused(fake_server: ServerUnderTest, prompt: Any) -> None:
    status, error = fake_server.post(COMPLETION, prompt=prompt)
    assert (status, error["param"]) == (400, "prompt")


@pytest.mark.parametrize(
    ("path", "fields", "status", "param", "code", "message"),
    [
        (CHAT, {}, 400, "messages", "missing_required_parameter", "messages is missing"),
        (COMPLETION, {}, 400, "prompt", "missing_required_parameter", "prompt is missing"),
        (COMPLETION, {"prompt": "x" * 3000}, 400, "prompt", TOO_LONG, f"{CONTEXT} 3016 tokens (3000 in the prompt, 16"),
        (COMPLETION, {"prompt": "x" * 3000, "stream": True}, 400, "prompt", TOO_LONG, "leave room for an answer"),
        (
            COMPLETION,
            {"prompt": ["x"] * 60, "max_tokens": 2000, "logprobs": 4},
            400,
            "logprobs",
            None,
            "600,000 logprobs",
        ),
        (
            CHAT,
            {"messages": HELLO, "n": 50, "logprobs": True, "top_logprobs": 4},
            400,
            "logprobs",
            None,
            "500,000 may be",
        ),
        (COMPLETION, {"prompt": "x", "echo": True, "logprobs": 0}, 400, "logprobs", None, "return logprobs of prompts"),
        (CHAT, {"messages": [{"role": "user", "content": "x" * 3000}]}, 400, "messages", TOO_LONG, f"{CONTEXT} 3019"),
        (COMPLETION, {"prompt": ["x"] * 300}, 400, "n", None, "at most 256, got 300"),
        (
            COMPLETION,
            {"prompt": ["x"] * 4097},
            400,
            "prompt",
            None,
            "must have at most 4,096 prompts, got 4,097",
        ),
        (COMPLETION, {"prompt": "x" * 5000}, 400, "prompt", TOO_LONG, "at least 5000 tokens, judged by its characters"),
        (CHAT, {"messages": HELLO * 5000}, 400, "messages", TOO_LONG, "judged by its characters"),
        (
            COMPLETION,
            {"prompt": "x", "n": 200, "stop": ["q" * 100_000]},
            400,
            "n",
            None,
            "prompts and settings of 200 texts take up 20,",
        ),
        ("/tokenize", {"prompt": [1] * 250_001}, 413, None, "body_too_large", "more than 250,000 values"),
        (
            CHAT,
            {"messages": HELLO, "model": "gpt-4"},
            404,
            "model",
            "model_not_found",
            "The model `gpt-4` does not exist.",
        ),
        *[
            (
                CHAT,
                {"messages": HELLO, "structured_outputs": {"regex": "a", name: True}},
                400,
                f"structured_outputs.{name}",
                "unsupported_parameter",
                "is not supported by this server",
            )
            for name in ("whitespace_pattern", "structural_tag")
        ],
        (
            CHAT,
            {"messages": HELLO, "structured_outputs": {"regex": "a", "disable_any_whitespace": True}},
            400,
            "structured_outputs",
            None,
            "needs phases 6",
        ),
    ],
)
def test_what_cannot_be_served_is_refused(
    fake_server: ServerUnderTest, path: str, fields: Any, status: int, param: str, code: str | None, message: str
) -> None:
    got, error = fake_server.post(path, **fields)
    assert (got, error["param"], error["code"]) == (status, param, code)
    assert message in error["message"]


def test_one_wrong_prompt_of_many_aborts_the_others(fake_server: ServerUnderTest) -> None:
    fake_server.llm.pause()  # without steps, a request ends only if it is aborted
    status, error = fake_server.post(COMPLETION, prompt=[[97]] * 9 + [[1000]], max_tokens=2000)
    fake_server.llm.resume()
    assert (status, "not in the vocabulary" in error["message"]) == (400, True)
    fake_server.wait_until_idle()


BODIES = [
    b"", b"{", b"[]", b"5", b"null", b'"x"', b"{'a': 1}", b'{"messages": [}', b"\xff\xfe", b'{"prompt": "\xff"}',
    b'{"prompt": "\\ud800"}', b'{"prompt": "\\udc00x"}', b'{"prompt": "\x00"}', b"[" * 100_000,
    b'{"prompt": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    b'{"prompt": "x", "temperature": NaN}', b'{"prompt": "x", "temperature": Infinity}',
    b'{"prompt": "x", "temperature": -Infinity}', b'{"prompt": "x", "temperature": 1e999}',
    b'{"prompt": "x", "max_tokens": ' + b"9" * 5000 + b"}", b'{"prompt": "x"} {"prompt": "y"}',
    "\ufeff{}".encode(), '{"prompt": "x"}'.encode("utf-16"),
]  # fmt: skip


@pytest.mark.parametrize("path", [CHAT, COMPLETION, "/tokenize"])
@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:30]))
def test_a_body_that_is_no_request_is_refused(fake_server: ServerUnderTest, path: str, body: bytes) -> None:
    with RawConnection(fake_server) as connection:
        connection.post(path, body)
        status, _, answer = connection.read_answer()
        assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
        assert len(answer["error"]["message"]) < 300
        connection.post("/tokenize", b'{"prompt": "x"}')
        assert connection.read_answer()[0] == 200, "the connection stays usable"


def test_a_body_that_is_not_declared_as_json_is_refused(fake_server: ServerUnderTest) -> None:
    with RawConnection(fake_server) as connection:
        connection.send(head("POST", CHAT, "Content-Length: 2", "Content-Type: text/plain") + b"{}")
        assert connection.read_status() == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v2/chat", 404), ("GET", CHAT, 405), ("PUT", "/health", 405)]
)
def test_another_path_or_method(fake_server: ServerUnderTest, method: str, path: str, status: int) -> None:
    with RawConnection(fake_server) as connection:
        connection.send(head(method, path))
        got, headers, answer = connection.read_answer()
        assert (got, "allow" in headers) == (status, status == 405)
        assert path in answer["error"]["message"]


@pytest.mark.parametrize("path", ["/health", "/metrics", "/v1/models", f"/v1/models/{MODEL}", "/", "/v1/models/none"])
def test_head_has_the_status_of_get(fake_server: ServerUnderTest, path: str) -> None:
    answers = [httpx.request(method, f"{fake_server.address}{path}") for method in ("GET", "HEAD")]
    assert [one.status_code for one in answers] == [404 if path.endswith("none") else 200] * 2
    assert answers[1].content == b""


@pytest.mark.parametrize("path", [CHAT, COMPLETION])
def test_harmless_defaults_of_clients_change_nothing(fake_server: ServerUnderTest, path: str) -> None:
    plain = {"messages": HELLO} if path == CHAT else {"prompt": "hello"}
    harmless = CASES["harmless"] | CASES["harmless_in_chats" if path == CHAT else "harmless_in_completions"]
    answers = [fake_server.post(path, max_tokens=5, seed=1, **fields) for fields in (plain, harmless)]
    assert [status for status, _ in answers] == [200, 200]
    assert answers[0][1]["choices"] == answers[1][1]["choices"]
    for is_continuous in (False, True):
        options = {"include_usage": True, "continuous_usage_stats": is_continuous, "include_obfuscation": False}
        with RawConnection(fake_server) as connection:
            connection.ask(path, stream=True, max_tokens=2, stream_options=options)
            answer = connection.read_until(b"data: [DONE]")
        events = [line.removeprefix(b"data: ") for line in answer.splitlines() if b'"usage"' in line]
        usages = [json.loads(event)["usage"] for event in events]
        assert (None in usages, usages[-1]["completion_tokens"]) == (not is_continuous, 2)
