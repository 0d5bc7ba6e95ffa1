"""The server as `mini-vllm serve` starts it, with its engine in a separate process."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from mini_vllm import EngineConfig, parse_lineup
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.engine_process import EngineProcess
from serving.cli.engine_spec import EngineSpec
from tests.serving.page.conftest import events, next_of, watching
from tests.serving.running import COMPLETION, HELLO, MODEL, ServerUnderTest, serving, wait_until

SPEC = EngineSpec(EngineConfig(num_gpu_blocks=400, check_invariants=True), parse_lineup("solution:1-5"))
FIELDS: Any = {"model": MODEL, "messages": HELLO, "max_tokens": 40, "seed": 3, "temperature": 0.7, "n": 2}


@pytest.fixture
def server() -> Iterator[ServerUnderTest]:
    with serving(AsyncLLM(SPEC.open), shutdown_timeout=5) as server:
        yield server


def kill_engine(server: ServerUnderTest) -> None:
    host = server.llm._host
    assert isinstance(host, EngineProcess)
    os.kill(host._process.pid or 0, signal.SIGKILL)
    wait_until(lambda: not server.llm.is_alive, "the end is noticed")


def test_the_metrics_are_those_of_the_engine(server: ServerUnderTest) -> None:
    server.post(COMPLETION, prompt="abcd", max_tokens=7, ignore_eos=True)
    text = httpx.get(f"{server.address}/metrics").text
    counts = {"generation_tokens_total": 7, "prompt_tokens_total": 4, "e2e_request_latency_seconds_count": 1}
    for name, value in counts.items():
        assert f'vllm:{name}{{engine="0",model_name="mini-vllm"}} {value}.0' in text


def test_the_page_sees_the_engine_s_steps(server: ServerUnderTest) -> None:
    with httpx.Client(base_url=server.address) as http, watching(http) as stream:
        assert next_of(stream, "hello")["num_blocks"] == 399
        answer = server.post(COMPLETION, prompt="abcd", max_tokens=7, ignore_eos=True)[1]
        ended = next(data for name, data in stream if name == "status" and data["newest"] == 6)
        assert not ended["num_unfinished"]
        next_of(stream, "picture")
        bill = http.get(f"/live/bills/{answer['id']}-0").json()
        assert (bill["num_prompt_tokens"], bill["num_steps"]) == (4, 7)
        kill_engine(server)
        assert any(name == "status" and not data["is_alive"] for name, data in stream)
        assert http.get(f"/live/bills/{answer['id']}-0").json()["error"]["code"] == "engine_dead"
    with httpx.Client(base_url=server.address) as http, http.stream("GET", "/live/stream") as reloaded:
        assert reloaded.status_code == 200
        assert not next_of(events(reloaded), "status")["is_alive"]


def test_if_the_engine_dies_every_client_is_told(server: ServerUnderTest) -> None:
    client = server.client_of()
    server.llm.pause()
    stream: Any = {**FIELDS, "n": 1, "stream": True}
    waiting = httpx.stream("POST", f"{server.base_url}/chat/completions", json=stream, timeout=30)
    kill_engine(server)
    with waiting as answer:
        assert answer.status_code == 503
    for path in ("/health", "/metrics"):
        answer = httpx.get(server.address + path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "engine_dead")
    with pytest.raises(openai.InternalServerError, match="the engine has ended: restart the server"):
        client.chat.completions.create(**FIELDS)


def test_a_stream_that_has_begun_ends_with_an_error(server: ServerUnderTest) -> None:
    stream = server.client_of().chat.completions.create(**{**FIELDS, "max_tokens": 5000, "n": 1}, stream=True)
    next(iter(stream))
    server.llm.pause()
    kill_engine(server)
    with pytest.raises(openai.APIError, match="process has ended with code -9"):
        list(stream)
