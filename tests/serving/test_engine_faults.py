"""Faults in the engine: a full queue, a timeout, a step that raises or hangs, leaked blocks."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import httpx
import openai
import pytest

from mini_vllm.core.request import Request
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine.llm_engine import LLMEngine
from tests.serving.running import COMPLETION, FAKE, MODEL, PATIENCE, RawConnection, ServerUnderTest, serving, wait_until

Batch = Sequence[ScheduledRequest]


def watch_steps(server: ServerUnderTest, before_step: Callable[[Batch], None]) -> None:
    def put_in_front(engine: LLMEngine) -> None:
        execute_model = engine.runner.execute_model

        def execute(batch: Batch) -> ModelRunnerOutput:
            before_step(batch)
            return execute_model(batch)

        engine.runner.execute_model = execute  # type: ignore[method-assign]

    server.call(put_in_front)


def fail_on_exclamation(batch: Batch) -> None:
    """Raise an error in every step that would generate a fourth or later token for a prompt with `!`."""
    for one in batch:
        if ord("!") in one.request.prompt_token_ids and one.request.num_output_tokens >= 3:
            raise MemoryError("no memory for this step")


@pytest.fixture
def server() -> Iterator[ServerUnderTest]:
    with serving(replace(FAKE, max_num_waiting=2), step_timeout=0.2) as server:
        yield server


@pytest.fixture
def failing(server: ServerUnderTest) -> ServerUnderTest:
    watch_steps(server, fail_on_exclamation)
    return server


@pytest.mark.parametrize("stream", [False, True])
def test_a_full_queue_asks_clients_to_retry(server: ServerUnderTest, stream: bool) -> None:
    waiting = server.ask_paused(number=2, max_tokens=3)
    with RawConnection(server) as connection:
        connection.ask(stream=stream)
        status, headers, answer = connection.read_answer()
    assert (status, answer["error"]["code"]) == (429, "rate_limit_exceeded")
    assert int(headers["retry-after"]) > 0
    server.llm.resume()
    assert [connection.read_answer()[0] for connection in waiting] == [200, 200]


def test_either_all_choices_of_a_request_are_queued_or_none(server: ServerUnderTest) -> None:
    server.llm.pause()
    assert server.post(COMPLETION, prompt="abc", n=3)[0] == 429
    server.wait_for_waiting(0)


def test_openais_client_retries_by_itself(server: ServerUnderTest) -> None:
    waiting = server.ask_paused(number=2, max_tokens=3)
    refused: list[int] = []

    def note(response: Any) -> None:
        refused.append(response.status_code)
        server.llm.resume()

    with openai.DefaultHttpxClient(event_hooks={"response": [note]}) as http:
        client = server.client_of(max_retries=3, http_client=http)
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
        server.wait_for_waiting(0)


def test_a_stream_that_takes_too_long_ends_with_an_error() -> None:
    with serving(request_timeout=1.0) as server:
        [connection] = server.ask_paused(stream=True)
        server.step_once()
        events = connection.read_until(b"data: [DONE]")
        assert b'"content":"' in events
        assert b'"code":"request_timeout"' in events
        server.llm.resume()
        server.wait_until_idle()


def test_a_failing_step_ends_a_request_with_an_error(failing: ServerUnderTest) -> None:
    status, error = failing.post(COMPLETION, prompt="fail!", max_tokens=20)
    assert (status, error["code"]) == (500, "engine_error")
    assert "MemoryError: no memory for this step" in error["message"]
    health = httpx.get(f"{failing.address}/health")
    assert (health.status_code, health.json()["status"]) == (200, "failing")
    assert "seconds ago: MemoryError: no memory for this step" in health.json()["message"]
    assert failing.post(COMPLETION, prompt="abc")[1]["choices"][0]["finish_reason"] == "length"
    failing.wait_until_idle()


@pytest.mark.parametrize("n", [1, 2])
def test_a_failing_step_ends_a_stream_with_an_error(failing: ServerUnderTest, n: int) -> None:
    [connection] = failing.ask_paused(COMPLETION, prompt="fail!", max_tokens=20, stream=True, n=n)
    failing.step_once()
    first = connection.read_until(b'"text":"')
    failing.llm.resume()
    lines = (first + connection.read_until(b"data: [DONE]")).decode().split("\n")
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    choices = [event["choices"][0] for event in events[:-1]]
    [failed] = [choice["index"] for choice in choices if choice["finish_reason"] == "error"]
    assert len("".join(choice["text"] for choice in choices if choice["index"] == failed)) == 3, "what it had is sent"
    assert events[-1]["error"]["code"] == "engine_error"
    failing.wait_until_idle()


def test_health_reports_a_step_that_does_not_end(server: ServerUnderTest) -> None:
    gate = threading.Event()

    def wait_for_gate(batch: Batch) -> None:
        assert gate.wait(PATIENCE)

    watch_steps(server, wait_for_gate)
    assert server.status_of("GET", "/health") == (200, None)
    with RawConnection(server) as connection:
        connection.ask(max_tokens=3)
        wait_until(lambda: server.status_of("GET", "/health") == (503, "engine_stuck"), "the engine is stuck")
        gate.set()
        assert connection.read_answer()[0] == 200
    assert server.status_of("GET", "/health") == (200, None)


def leak(engine: LLMEngine) -> None:
    """Make `free` release a request's blocks without returning the last one, like an off-by-one error."""
    kv = engine.scheduler.kv
    whole = kv.free

    def free(request: Request, num_computed_tokens: int) -> None:
        lost = kv.block_ids(request.request_id)[-1:]
        whole(request, num_computed_tokens)
        for block_id in lost:
            kv.block_pool.free_queue.remove(kv.block_pool.blocks[block_id])  # type: ignore[attr-defined]

    kv.free = free  # type: ignore[method-assign]


def test_leaked_blocks_are_named() -> None:
    with serving(replace(FAKE, num_gpu_blocks=6, check_invariants=False, enable_prefix_caching=False)) as server:
        server.call(leak)
        health = f"{server.address}/health"
        assert httpx.get(health).json() == {"status": "ok"}
        assert server.post(COMPLETION, prompt="abc", max_tokens=2)[0] == 200
        wait_until(lambda: httpx.get(health).json()["status"] == "leaking", "the leak is seen")
        assert httpx.get(health).json()["message"].startswith("1 of 5 blocks have leaked")
        answers = [server.post(COMPLETION, prompt="abc", max_tokens=2) for _ in range(5)]
        assert [status for status, _ in answers] == [200] * 4 + [500]
        assert "5 of 5 blocks have leaked: no request holds them" in answers[-1][1]["message"]
        answer = httpx.get(health)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "blocks_leaked")
