"""What goes wrong in the engine: the queue is full, the time is over, a step raises, a step does not end."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import openai
import pytest
from openai import OpenAI

from mini_vllm.config import EngineConfig
from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine.llm_engine import LLMEngine
from serving.server import RunningServer, running_server
from serving.settings import ServerSettings
from tests.serving.running import (
    MODEL,
    PATIENCE,
    RawConnection,
    ask,
    call,
    fake_llm,
    num_waiting,
    wait_until,
    wait_until_idle,
)

Batch = Sequence[ScheduledRequest]


class WatchedRunner:
    """Calls a function with the batch of every step, before the step."""

    def __init__(self, runner: ModelRunner, before_step: Callable[[Batch], None]) -> None:
        self._runner, self._before_step = runner, before_step
        self.vocab_size = runner.vocab_size

    def execute_model(self, batch: Batch) -> ModelRunnerOutput:
        self._before_step(batch)
        return self._runner.execute_model(batch)


def watch_steps(server: RunningServer, before_step: Callable[[Batch], None]) -> None:
    def put_in_front(engine: LLMEngine) -> None:
        engine.runner = WatchedRunner(engine.runner, before_step)

    call(server.llm, put_in_front)


def fail_on_exclamation(server: RunningServer) -> None:
    """Make every step raise that would compute the fourth token of a prompt with a `!`, or a later one."""

    def before_step(batch: Batch) -> None:
        for one in batch:
            if ord("!") in one.request.prompt_token_ids and one.request.num_output_tokens >= 3:
                raise MemoryError("no memory for this step")

    watch_steps(server, before_step)


@pytest.fixture
def server() -> Iterator[RunningServer]:
    config = EngineConfig(num_gpu_blocks=400, max_num_waiting=2, check_invariants=True)
    with running_server(fake_llm(config), ServerSettings(port=0, step_timeout=0.2)) as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
        yield client


@pytest.mark.parametrize("stream", [False, True])
def test_a_full_queue_asks_to_come_back(server: RunningServer, client: OpenAI, stream: bool) -> None:
    server.llm.pause()
    waiting = [RawConnection(server) for _ in range(2)]
    for connection in waiting:
        connection.post("/v1/chat/completions", ask(max_tokens=3))
    wait_until(lambda: num_waiting(server.llm) == 2, "the queue is full")
    with pytest.raises(openai.RateLimitError) as caught:
        client.completions.create(model=MODEL, prompt="abc", stream=stream)
    assert caught.value.code == "queue_full"
    assert int(caught.value.response.headers["retry-after"]) > 0
    server.llm.resume()
    assert [connection.read_answer()[0] for connection in waiting] == [200, 200]
    assert client.completions.create(model=MODEL, prompt="abc").choices[0].finish_reason == "length"


def test_if_not_all_choices_find_a_place_none_does(server: RunningServer, client: OpenAI) -> None:
    server.llm.pause()
    with pytest.raises(openai.RateLimitError):
        client.completions.create(model=MODEL, prompt="abc", n=3)
    wait_until(lambda: num_waiting(server.llm) == 0, "no choice waits")


def test_the_client_of_openai_tries_again_by_itself(server: RunningServer) -> None:
    server.llm.pause()
    waiting = [RawConnection(server) for _ in range(2)]
    for connection in waiting:
        connection.post("/v1/chat/completions", ask(max_tokens=3))
    wait_until(lambda: num_waiting(server.llm) == 2, "the queue is full")
    refused: list[int] = []

    def note(response: Any) -> None:
        refused.append(response.status_code)
        server.llm.resume()

    with openai.DefaultHttpxClient(event_hooks={"response": [note]}) as http:
        client = OpenAI(base_url=server.base_url, api_key="none", max_retries=3, http_client=http)
        assert client.completions.create(model=MODEL, prompt="abc").choices[0].finish_reason == "length"
    assert refused == [429, 200]


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_takes_too_long(stream: bool) -> None:
    settings = ServerSettings(port=0, request_timeout=0.2)
    with running_server(fake_llm(), settings) as server:
        server.llm.pause()
        connection = RawConnection(server)
        connection.post("/v1/chat/completions", ask(stream=stream))
        status, _, answer = connection.read_answer()
        assert (status, answer["error"]["code"]) == (504, "request_timeout")
        wait_until(lambda: num_waiting(server.llm) == 0, "the request is gone")


def test_a_stream_that_takes_too_long_ends_with_an_error() -> None:
    with running_server(fake_llm(), ServerSettings(port=0, request_timeout=1.0)) as server:
        connection = RawConnection(server)
        server.llm.pause()
        connection.post("/v1/chat/completions", ask(stream=True))
        wait_until(lambda: num_waiting(server.llm) == 1, "the request waits")
        asyncio.run(server.llm.step_once())
        events = connection.read_until(b"data: [DONE]")
        assert b'"content":"' in events
        assert b'"code":"request_timeout"' in events
        server.llm.resume()
        wait_until_idle(server.llm)


def test_a_failing_step_ends_a_request_with_an_error(server: RunningServer, client: OpenAI) -> None:
    fail_on_exclamation(server)
    with pytest.raises(openai.InternalServerError, match="MemoryError: no memory for this step") as caught:
        client.completions.create(model=MODEL, prompt="fail!", max_tokens=20)
    assert caught.value.code == "engine_error"
    assert client.completions.create(model=MODEL, prompt="abc").choices[0].finish_reason == "length"
    wait_until_idle(server.llm)


@pytest.mark.parametrize("n", [1, 2])
def test_a_failing_step_ends_a_stream_with_an_error(server: RunningServer, n: int) -> None:
    fail_on_exclamation(server)
    server.llm.pause()
    connection = RawConnection(server)
    fields = {"prompt": "fail!", "max_tokens": 20, "stream": True, "n": n}
    connection.post("/v1/completions", json.dumps(fields).encode())
    wait_until(lambda: num_waiting(server.llm) == n, "the choices wait")
    asyncio.run(server.llm.step_once())
    first = connection.read_until(b'"text":"')
    server.llm.resume()
    events = [json.loads(event[6:]) for event in events_of(first + connection.read_until(b"data: [DONE]"))]
    choices = [event["choices"][0] for event in events[:-1]]
    [failed] = [choice["index"] for choice in choices if choice["finish_reason"] == "error"]
    assert len("".join(choice["text"] for choice in choices if choice["index"] == failed)) == 3, "what it had is sent"
    assert events[-1]["error"]["code"] == "engine_error"
    wait_until_idle(server.llm)


def test_openai_s_client_raises_an_error_in_a_stream(server: RunningServer, client: OpenAI) -> None:
    fail_on_exclamation(server)
    server.llm.pause()
    threading.Thread(target=take_first_step, args=(server,)).start()
    fails: Any = [{"role": "user", "content": "fail!"}]
    stream = client.chat.completions.create(model=MODEL, messages=fails, max_tokens=20, stream=True)
    server.llm.resume()
    with pytest.raises(openai.APIError, match="no memory for this step"):
        list(stream)


def take_first_step(server: RunningServer) -> None:
    wait_until(lambda: num_waiting(server.llm) == 1, "the request waits")
    asyncio.run(server.llm.step_once())


def events_of(data: bytes) -> list[str]:
    return [line for line in data.decode().split("\n") if line.startswith("data: {")]


def test_health_tells_of_a_step_that_does_not_end(server: RunningServer) -> None:
    gate = threading.Event()
    watch_steps(server, lambda batch: require(gate.wait(PATIENCE)))
    assert health(server) == (200, None)
    request = RawConnection(server)
    request.post("/v1/chat/completions", ask(max_tokens=3))
    wait_until(lambda: health(server) == (503, "engine_stuck"), "the engine is stuck in a step")
    gate.set()
    assert request.read_answer()[0] == 200
    assert health(server) == (200, None)


def test_health_tells_of_an_engine_that_has_ended(server: RunningServer) -> None:
    server.llm._host.end()  # nothing that a request does may end it
    assert health(server) == (503, "engine_dead")
    connection = RawConnection(server)
    connection.post("/v1/chat/completions", ask())
    assert connection.read_answer()[0] == 503


def health(server: RunningServer) -> tuple[int, str | None]:
    connection = RawConnection(server)
    connection.send(b"GET /health HTTP/1.1\r\nHost: test\r\n\r\n")
    status, _, answer = connection.read_answer()
    connection.close()
    return status, answer.get("error", {}).get("code")


def require(condition: bool) -> None:
    assert condition
