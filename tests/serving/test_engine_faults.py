"""What goes wrong in the engine: the queue is full, the time is over, a step raises, a step does not end."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import openai
import pytest
from openai import OpenAI

from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine.llm_engine import LLMEngine
from serving.server import RunningServer
from tests.serving.running import (
    COMPLETION,
    FAKE,
    MODEL,
    PATIENCE,
    RawConnection,
    ask_paused,
    call,
    client_of,
    post,
    serving,
    status_of,
    step_once,
    wait_for_waiting,
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


def fail_on_exclamation(batch: Batch) -> None:
    """Raise in every step that would compute the fourth token of a prompt with a `!`, or a later one."""
    for one in batch:
        if ord("!") in one.request.prompt_token_ids and one.request.num_output_tokens >= 3:
            raise MemoryError("no memory for this step")


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with serving(replace(FAKE, max_num_waiting=2), step_timeout=0.2) as server:
        yield server


@pytest.fixture
def failing(server: RunningServer) -> RunningServer:
    watch_steps(server, fail_on_exclamation)
    return server


@pytest.mark.parametrize("stream", [False, True])
def test_a_full_queue_asks_to_come_back(server: RunningServer, stream: bool) -> None:
    waiting = ask_paused(server, number=2, max_tokens=3)
    with RawConnection(server) as connection:
        connection.ask(stream=stream)
        status, headers, answer = connection.read_answer()
    assert (status, answer["error"]["code"]) == (429, "queue_full")
    assert int(headers["retry-after"]) > 0
    server.llm.resume()
    assert [connection.read_answer()[0] for connection in waiting] == [200, 200]


def test_if_not_all_choices_find_a_place_none_does(server: RunningServer) -> None:
    server.llm.pause()
    assert post(server, COMPLETION, prompt="abc", n=3)[0] == 429
    wait_for_waiting(server.llm, 0)


def test_the_client_of_openai_tries_again_by_itself(server: RunningServer) -> None:
    waiting = ask_paused(server, number=2, max_tokens=3)
    refused: list[int] = []

    def note(response: Any) -> None:
        refused.append(response.status_code)
        server.llm.resume()

    with openai.DefaultHttpxClient(event_hooks={"response": [note]}) as http:
        client = client_of(server, max_retries=3, http_client=http)
        answer = client.completions.create(model=MODEL, prompt="abc")
    assert answer.choices[0].finish_reason == "length"
    assert refused == [429, 200]
    assert [connection.read_answer()[0] for connection in waiting] == [200, 200]


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_takes_too_long(stream: bool) -> None:
    with serving(request_timeout=0.2) as server, RawConnection(server) as connection:
        server.llm.pause()
        connection.ask(stream=stream)
        assert connection.read_status() == (504, "request_timeout")
        wait_for_waiting(server.llm, 0)


def test_a_stream_that_takes_too_long_ends_with_an_error() -> None:
    with serving(request_timeout=1.0) as server:
        [connection] = ask_paused(server, stream=True)
        step_once(server)
        events = connection.read_until(b"data: [DONE]")
        assert b'"content":"' in events
        assert b'"code":"request_timeout"' in events
        server.llm.resume()
        wait_until_idle(server.llm)


def test_a_failing_step_ends_a_request_with_an_error(failing: RunningServer) -> None:
    status, error = post(failing, COMPLETION, prompt="fail!", max_tokens=20)
    assert (status, error["code"]) == (500, "engine_error")
    assert "MemoryError: no memory for this step" in error["message"]
    assert post(failing, COMPLETION, prompt="abc")[1]["choices"][0]["finish_reason"] == "length"
    wait_until_idle(failing.llm)


@pytest.mark.parametrize("n", [1, 2])
def test_a_failing_step_ends_a_stream_with_an_error(failing: RunningServer, n: int) -> None:
    [connection] = ask_paused(failing, COMPLETION, prompt="fail!", max_tokens=20, stream=True, n=n)
    step_once(failing)
    first = connection.read_until(b'"text":"')
    failing.llm.resume()
    lines = (first + connection.read_until(b"data: [DONE]")).decode().split("\n")
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    choices = [event["choices"][0] for event in events[:-1]]
    [failed] = [choice["index"] for choice in choices if choice["finish_reason"] == "error"]
    assert len("".join(choice["text"] for choice in choices if choice["index"] == failed)) == 3, "what it had is sent"
    assert events[-1]["error"]["code"] == "engine_error"
    wait_until_idle(failing.llm)


def test_openai_s_client_raises_an_error_in_a_stream(failing: RunningServer, client: OpenAI) -> None:
    def take_first_step() -> None:
        wait_for_waiting(failing.llm, 1)
        step_once(failing)

    failing.llm.pause()
    threading.Thread(target=take_first_step).start()
    fails: Any = [{"role": "user", "content": "fail!"}]
    stream = client.chat.completions.create(model=MODEL, messages=fails, max_tokens=20, stream=True)
    failing.llm.resume()
    with pytest.raises(openai.APIError, match="no memory for this step"):
        list(stream)


def test_health_tells_of_a_step_that_does_not_end(server: RunningServer) -> None:
    gate = threading.Event()

    def wait_for_gate(batch: Batch) -> None:
        assert gate.wait(PATIENCE)

    watch_steps(server, wait_for_gate)
    assert status_of(server, "GET", "/health") == (200, None)
    with RawConnection(server) as connection:
        connection.ask(max_tokens=3)
        wait_until(lambda: status_of(server, "GET", "/health") == (503, "engine_stuck"), "the engine is stuck")
        gate.set()
        assert connection.read_answer()[0] == 200
    assert status_of(server, "GET", "/health") == (200, None)


def test_health_tells_of_an_engine_that_has_ended(server: RunningServer) -> None:
    server.llm._host.end()  # nothing that a request does may end it
    assert status_of(server, "GET", "/health") == (503, "engine_dead")
    with RawConnection(server) as connection:
        connection.ask()
        assert connection.read_answer()[0] == 503
