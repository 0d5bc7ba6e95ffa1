"""Function calls that a client forces: recorded requests from real clients, every form of answer, and rejections.

The bodies were sent by instructor 1.17.0 (`Mode.TOOLS`), LangChain's ChatOpenAI (langchain-openai 1.7.4:
`function_calling` with `strict`, and `bind_tools` with `any`) and pydantic-ai 2.38.0 (two types of output).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from jsonschema import validate  # type: ignore[import-untyped]
from openai import OpenAI

from mini_vllm import LLM, EngineConfig, parse_lineup
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm_labs.serving.tool_calls import ForcedCall, GrowingCall, closed
from tests.serving.running import CHAT, HELLO, MODEL, PATIENCE, ServerUnderTest, serving

RECORDED: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("tool_requests.yaml").read_text(encoding="utf-8"))
MOOD = {"type": "object", "properties": {"mood": {"enum": ["glad", "sad"]}}, "required": ["mood"]}
F, G = ({"name": name, "parameters": MOOD} for name in ("rate", "judge"))
RATE: dict[str, Any] = {"tools": [{"type": "function", "function": F}]}
BOTH: dict[str, Any] = {"tools": [*RATE["tools"], {"type": "function", "function": G}]}
NAMED = {"type": "function", "function": {"name": "rate"}}
OLD: dict[str, Any] = {"functions": [F, G]}


@pytest.fixture(scope="module")
def tools_server() -> Iterator[ServerUnderTest]:
    llm = LLM(config=EngineConfig(num_gpu_blocks=200), lineup=parse_lineup("solution:1-6,solution:9"))
    with serving(AsyncLLM(llm.engine)) as server:
        yield server


@pytest.fixture
def tools_client(tools_server: ServerUnderTest) -> Iterator[OpenAI]:
    with tools_server.client_of() as client:
        yield client


def answer(server: ServerUnderTest, stream: bool, **fields: Any) -> tuple[Any, str]:
    """Return the call and the finish reason; the pieces of a stream are joined."""
    text = httpx.post(f"{server.address}{CHAT}", json=fields | {"stream": stream}, timeout=PATIENCE).text
    if not stream:
        choice = json.loads(text)["choices"][0]
        message = choice["message"]
        assert message["content"] is None
        return message.get("function_call") or message["tool_calls"][0], choice["finish_reason"]
    call: dict[str, Any] = {"function": {"arguments": ""}}
    events = [json.loads(line[6:])["choices"][0] for line in text.splitlines() if line.startswith("data: {")]
    pieces = [piece for one in events for piece in one["delta"].get("tool_calls", [])]
    pieces += [{"function": one["delta"]["function_call"]} for one in events if "function_call" in one["delta"]]
    assert len(pieces) > 3, "the arguments come piece by piece"
    for piece in pieces:
        arguments = call["function"]["arguments"] + piece["function"]["arguments"]
        call |= piece | {"function": call["function"] | piece["function"] | {"arguments": arguments}}
    return call if "id" in call and "type" in call else call["function"], events[-1]["finish_reason"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("client_name", RECORDED)
def test_a_real_client_gets_its_call(tools_server: ServerUnderTest, client_name: str, stream: bool) -> None:
    body = RECORDED[client_name]
    call, reason = answer(tools_server, stream, **body)
    functions = {tool["function"]["name"]: tool["function"]["parameters"] for tool in body["tools"]}
    named = body["tool_choice"] != "required"
    assert (call["type"], call["id"][:5], reason) == ("function", "call_", "stop" if named else "tool_calls")
    validate(json.loads(call["function"]["arguments"]), functions[call["function"]["name"]])


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_older_fields_get_the_older_answer(tools_server: ServerUnderTest, stream: bool) -> None:
    fields = OLD | {"function_call": {"name": "judge"}}
    call, reason = answer(tools_server, stream, messages=HELLO, temperature=0, **fields)
    assert (call["name"], reason, list(json.loads(call["arguments"]))) == ("judge", "stop", ["mood"])


def test_a_call_that_is_cut_ends_by_length(tools_client: OpenAI) -> None:
    one = tools_client.chat.completions.create(
        model=MODEL, messages=HELLO, max_tokens=2, **RATE, tool_choice="required"
    ).choices[0]
    assert (one.finish_reason, bool(one.message.tool_calls)) == ("length", True)


@pytest.mark.parametrize("is_last_complete", [True, False])
def test_pieces_of_a_call_are_its_arguments_however_the_text_is_cut(is_last_complete: bool) -> None:
    arguments = '{"a":{"b":"}}"}}'
    text = f'{{"name":"g","parameters":{arguments}' + ("}" if is_last_complete else "")
    for size in range(1, len(text) + 1):
        call, pieces = GrowingCall(ForcedCall({"f": {}, "g": {}}, is_named=False, is_legacy=False)), list[Any]()
        cuts = [text[start : start + size] for start in range(0, len(text), size)]
        for place, cut in enumerate(cuts):
            pieces += call.take(cut, is_last=place == len(cuts) - 1)
        assert (call.name, "".join(one["function"]["arguments"] for one in pieces)) == ("g", arguments)


OPEN: Any = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}
SHUT: Any = {
    "type": "object", "additionalProperties": False,
    "properties": {"a": {"type": "object", "properties": {}, "additionalProperties": False}},
}  # fmt: skip
UNCHANGED: tuple[Any, ...] = (
    {"allOf": [OPEN, {"properties": {"b": {}}}]}, OPEN | {"anyOf": [{"required": ["a"]}]},
    {"properties": {}, "additionalProperties": {"type": "null"}},
    {"properties": {}, "patternProperties": {"x": {}}}, {"const": {"properties": {}}}, {"type": "object"},
)  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (OPEN, SHUT),
        ({"$ref": "#/$defs/x", "$defs": {"x": OPEN}}, {"$ref": "#/$defs/x", "$defs": {"x": SHUT}}),
        ({"anyOf": [OPEN, {"type": "null"}]}, {"anyOf": [SHUT, {"type": "null"}]}),
        *((same, same) for same in UNCHANGED),
    ],
)  # fmt: skip
def test_objects_of_a_function_are_closed_unless_they_say_otherwise(schema: Any, expected: Any) -> None:
    assert closed(schema) == expected


CALLED = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "1", "type": "function", "function": {"name": "rate", "arguments": '{"mood": "sad"}'}}]}  # fmt: skip
RESULT = {"role": "tool", "tool_call_id": "1", "content": "done"}
OLD_CALLED = {"role": "assistant", "content": None, "function_call": CALLED["tool_calls"][0]["function"]}  # type: ignore[index]
OLD_RESULT = {"role": "function", "name": "rate", "content": "done"}


@pytest.mark.parametrize("chat", [[CALLED, RESULT], [OLD_CALLED, OLD_RESULT]], ids=["tools", "functions"])
def test_calls_and_results_are_rendered_or_refused(
    fake_server: ServerUnderTest, tools_server: ServerUnderTest, chat: list[Any]
) -> None:
    status, tokens = fake_server.post("/tokenize", messages=[*HELLO, *chat])
    text = bytes(tokens["tokens"]).decode()
    assert (status, "rate" in text and '"mood": "sad"' in text and "tool: done" in text) == (200, True)
    # the embedded model's template does not support tools
    status, error = tools_server.post(CHAT, messages=[*HELLO, *chat])
    assert (status, error["param"]) == (400, "messages")
    assert "does not support tool_calls, which appears in messages.1" in error["message"]


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        (RATE, "tools", "tools are not supported where the model chooses"),
        (RATE | {"tool_choice": "auto"}, "tools", "or use response_format, which is supported"),
        (OLD, "functions", "functions are not supported where the model chooses"),
        (RATE | {"tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice", "names 'x', but"),
        (OLD | {"function_call": {"name": "x"}}, "function_call", "names 'x', but functions has rate, judge"),
        ({"tool_choice": "required"}, "tool_choice", "tool_choice is allowed only together with tools"),
        ({"function_call": {"name": "x"}}, "function_call", "is allowed only together with functions"),
        (RATE | {"tool_choice": "any"}, "tool_choice", "must be"),
        (OLD | {"function_call": "required"}, "function_call", "must be"),
        (RATE | OLD, "functions", "older names"),
        ({"tools": RATE["tools"] * 2, "tool_choice": "required"}, "tools", "twice"),
        (RATE | {"tool_choice": NAMED, "response_format": {"type": "json_object"}}, "tools", "both constrain"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}],
          "tool_choice": "required"}, "tools", "must have the type object, got 'array'"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools.0.function.name", "pattern"),
        ({"tools": [{"type": "retrieval"}]}, "tools.0.type", "'function'"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0", "tool_call_id"),
        ({"messages": [CALLED | {"role": "user"}]}, "messages.0", "only the assistant role"),
        ({"messages": [OLD_CALLED | {"function_call": {"name": "f", "arguments": "5"}}]},
         "messages.0.function_call.arguments", "must be a JSON object in a string"),
        # fields that the engine rejects, under the names by which clients know them
        (RATE | {"tool_choice": NAMED}, "tools", "tools needs phases 6 (GPU runner) and 9 (structured"),
        (OLD | {"function_call": {"name": "rate"}}, "functions", "--lineup solution:1-6,solution:9"),
        ({"response_format": {"type": "json_object"}}, "response_format", "--lineup solution:1-6,solution:9"),
        ({"structured_outputs": {"regex": "a"}}, "structured_outputs", "structured_outputs needs phases"),
        ({"structured_outputs": {"whitespace": True}}, "structured_outputs.whitespace", "not supported by this server"),
        ({"max_completion_tokens": 3, "min_tokens": 4}, "min_tokens", "at most max_completion_tokens (3)"),
    ],
)  # fmt: skip
def test_what_cannot_be_served_names_the_field_that_was_sent(
    fake_server: ServerUnderTest, fields: Any, param: str, message: str
) -> None:
    status, error = fake_server.post(CHAT, **({"messages": HELLO} | fields))
    assert (status, error["param"]) == (400, param), error
    assert message in error["message"]


def test_a_schema_that_cannot_be_compiled_is_refused_by_the_field_that_has_it(tools_server: ServerUnderTest) -> None:
    bad = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 5, "maximum": 3}}, "required": ["a"]}
    tools = [{"type": "function", "function": {"name": "f", "parameters": bad}}]
    shape = {"type": "json_schema", "json_schema": {"name": "f", "schema": bad}}
    for fields in ({"tools": tools, "tool_choice": "required"}, {"response_format": shape}):
        for stream in (False, True):
            status, error = tools_server.post(CHAT, messages=HELLO, stream=stream, **fields)
            assert (status, error["param"]) == (400, next(iter(fields)))
            assert f"{next(iter(fields))} cannot be compiled" in error["message"]
