"""What the server refuses: with the right status, and naming the field. Nothing is ignored."""

import json
from typing import Any

import pytest

from tests.serving.running import CHAT, COMPLETION, HELLO, RawConnection, ServerUnderTest, head

TOO_LONG = "context_length_exceeded"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TOOL = {"type": "function", "function": {"name": "look_up"}}

WRONG_IN_BOTH: list[tuple[str, Any]] = [
    ("n", 0), ("n", 1.5), ("n", "2"), ("n", True), ("n", 257),
    ("max_tokens", 0), ("max_tokens", -1), ("max_tokens", "5"),
    ("temperature", -0.1), ("temperature", "hot"),
    ("top_p", 0), ("top_p", 1.1), ("top_k", -2), ("seed", 2**63), ("seed", 0.5),
    ("presence_penalty", 2.1), ("frequency_penalty", -2.1), ("repetition_penalty", 0), ("repetition_penalty", 2.5),
    ("stop", ""), ("stop", [""]), ("stop", [1]), ("stop", ["x"] * 65), ("stop_token_ids", [-1]),
    ("logit_bias", {"5": 101}), ("logit_bias", {"x": 1}), ("logit_bias", {"5000": 1}), ("logit_bias", []),
    ("min_tokens", -1), ("min_tokens", 9), ("cache_salt", ""), ("priority", 1), ("priority", 0.5),
    ("stream", "yes"), ("stream_options", {"include_usage": True}), ("model", 5), ("user", 5),
    ("logprobs", 21), ("echo", "yes"),
    ("response_format", {"type": "json_object"}), ("response_format", {"type": "json_schema", "json_schema": {}}),
    ("service_tier", "flex"), ("metadata", {"a": 1}), ("store", True), ("guided_json", {}), ("min_p", 0.1),
    ("stream_options", {"continuous_usage_stats": True}), ("bad_words", ["x"]), ("use_beam_search", True),
    ("best_of", 2), ("suffix", "x"), ("skip_special_tokens", False), ("anything", 1),
]  # fmt: skip
HARMLESS: dict[str, Any] = {
    "store": False, "metadata": {"a": "b"}, "service_tier": "auto", "prompt_cache_key": "k", "safety_identifier": "s",
    "min_p": 0, "n": 1, "logit_bias": {}, "stream_options": None, "user": "u", "stop": None,
    "skip_special_tokens": True, "response_format": {"type": "text"}, "length_penalty": 1.0, "use_beam_search": False,
    "bad_words": [],
}  # fmt: skip
HARMLESS_OF: dict[str, dict[str, Any]] = {
    CHAT: {
        "tools": [], "tool_choice": "none", "parallel_tool_calls": True, "modalities": ["text"], "verbosity": "medium",
        "reasoning_effort": "none", "functions": [], "top_logprobs": 0, "chat_template_kwargs": {}, "echo": False,
        "messages": [{"role": "user", "content": "hello", "name": "me"}],
    },
    COMPLETION: {"best_of": 1, "suffix": "", "prompt": "hello"},
}  # fmt: skip
WRONG_IN_CHATS: list[tuple[str, Any]] = [
    ("tools", [TOOL]), ("tool_choice", "required"), ("functions", [TOOL]), ("chat_template_kwargs", {"x": 1}),
    ("modalities", ["text", "audio"]), ("audio", {"voice": "alloy", "format": "wav"}), ("prediction", {}),
    ("reasoning_effort", "low"), ("verbosity", "low"), ("web_search_options", {}), ("prompt", "x"),
    ("top_logprobs", 2), ("top_logprobs", 21), ("max_completion_tokens", 0), ("max_completion_tokens", 3),
]  # fmt: skip
WRONG_MESSAGES: list[tuple[str, Any]] = [
    ("messages", []), ("messages", "hello"), ("messages", None),
    ("messages.0", "hello"), ("messages.0.role", {"role": "wizard", "content": "x"}),
    ("messages.0.content", {"role": "user"}), ("messages.0.content", {"role": "user", "content": None}),
    ("messages.0.content", {"role": "user", "content": [IMAGE]}),
    ("messages.0.content", {"role": "user", "content": [{"type": "text", "text": "x"}, IMAGE]}),
    ("messages.0.content", {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}),
    ("messages.0.content", {"role": "user", "content": [{"type": "file", "file": {}}]}),
    ("messages.0.content", {"role": "user", "content": [{"type": "text", "text": 5}]}),
    ("messages.0.content", {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {}}]}),
    ("messages.0.content", {"role": "user", "content": []}), ("messages.0.content", {"role": "user", "content": ["x"]}),
    ("messages.0.role", {"role": "tool", "content": "x", "tool_call_id": "1"}),
    ("messages.0.name", {"role": "user", "content": "x", "name": 5}),
    ("messages.0.tool_calls", {"role": "assistant", "content": "x", "tool_calls": [{}]}),
]  # fmt: skip
WRONG_PROMPTS: list[Any] = [
    5, None, [], {}, [1.5], [-1], [True], ["a", 1], [[1], "a"], [[]], [[1], []], "", "x" * 2048, [1000], [10**30],
]  # fmt: skip


def ids(case: Any) -> str:
    return json.dumps(case)[:60]


WRONG_FIELDS = [(path, *wrong) for path in (CHAT, COMPLETION) for wrong in WRONG_IN_BOTH]
WRONG_FIELDS += [(CHAT, *wrong) for wrong in WRONG_IN_CHATS]


@pytest.mark.parametrize(("path", "name", "value"), WRONG_FIELDS, ids=ids)
def test_a_wrong_value_is_refused_by_its_name(fake_server: ServerUnderTest, path: str, name: str, value: Any) -> None:
    prompt: dict[str, Any] = {"messages": HELLO} if path == CHAT else {"prompt": "hello"}
    status, error = fake_server.post(path, **({"max_tokens": 5} | prompt | {name: value}))
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert error["param"].split(".")[0] == name
    assert name in error["message"]


@pytest.mark.parametrize(("param", "value"), WRONG_MESSAGES, ids=ids)
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
        (COMPLETION, {"prompt": "x" * 3000}, 400, "prompt", TOO_LONG, "at most max_model_len"),
        (COMPLETION, {"prompt": "x" * 3000, "stream": True}, 400, "prompt", TOO_LONG, "at most max_model_len"),
        (COMPLETION, {"prompt": "x" * 3000, "echo": True, "logprobs": 1}, 400, "prompt", TOO_LONG, "max_model_len"),
        (CHAT, {"messages": [{"role": "user", "content": "x" * 3000}]}, 400, "messages", TOO_LONG, "max_model_len"),
        (COMPLETION, {"prompt": ["x"] * 300}, 400, "n", None, "at most 256, got 300"),
        (CHAT, {"messages": HELLO, "model": "gpt-4"}, 404, "model", "model_not_found", "'gpt-4' does not exist"),
    ],
)
def test_what_cannot_be_served_is_refused(
    fake_server: ServerUnderTest, path: str, fields: Any, status: int, param: str, code: str | None, message: str
) -> None:
    got, error = fake_server.post(path, **fields)
    assert (got, error["param"], error["code"]) == (status, param, code)
    assert message in error["message"]


def test_one_wrong_prompt_of_many_aborts_the_others(fake_server: ServerUnderTest) -> None:
    fake_server.llm.pause()  # without steps a request ends only if it is aborted
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


@pytest.mark.parametrize("path", [CHAT, COMPLETION])
def test_harmless_defaults_of_clients_change_nothing(fake_server: ServerUnderTest, path: str) -> None:
    plain = {"messages": HELLO} if path == CHAT else {"prompt": "hello"}
    answers = [
        fake_server.post(path, max_tokens=5, seed=1, **fields) for fields in (plain, HARMLESS | HARMLESS_OF[path])
    ]
    assert [status for status, _ in answers] == [200, 200]
    assert answers[0][1]["choices"] == answers[1][1]["choices"]
    options = {"include_usage": True, "continuous_usage_stats": False, "include_obfuscation": False}
    with RawConnection(fake_server) as connection:
        connection.ask(path, stream=True, max_tokens=2, stream_options=options)
        assert b'"usage":{' in connection.read_until(b"data: [DONE]")
