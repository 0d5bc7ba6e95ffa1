"""Minutes of load with clients that disconnect, garbage, failing steps and a SIGTERM leave nothing behind.

Run them with `ENDURANCE_MINUTES=10 pytest -m endurance tests/serving`; without the variable, each load lasts a minute.
These tests are not part of the usual run.
"""

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random
from unittest.mock import patch

import numpy as np
import psutil
import pytest

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.runner.loading import EMBEDDED_MODEL
from mini_vllm_labs.bench.backend import BackendSettings
from mini_vllm_labs.bench.serve.completion import complete
from mini_vllm_labs.bench.serve.server_process import IGNORE_EOS, OURS, MeasuredServer, server_command
from mini_vllm_labs.bench.serve.text_requests import Endpoint, TextRequest, words
from mini_vllm_labs.serving.settings import allow_many_connections
from tests.serving.running import PATIENCE, serving, wait_until
from tests.serving.test_refusals import BODIES

SECONDS = 60 * float(os.environ.get("ENDURANCE_MINUTES", "1"))
CONFIG = EngineConfig(num_gpu_blocks=2049, check_invariants=True)
SOLUTION = parse_lineup("solution")
GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
MAX_GROWTH = 0.02
"""A leak of a kilobyte per request grows faster than this share of the memory, over half of the load."""
FAILS_EVERY = 50
GARBAGE = (*BODIES, b'{"prompt": [99999999]}', b'{"prompt": "' + b" " * 8 * 2**20 + b'"}')
NO_HTTP = (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32), b"GET /health HTTP/1.1\r\nX: " + b"x" * 2**20)
HALF_OPEN = (b"", b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Ty")
REFUSALS = ("no connection", "no answer", "HTTP 503")


@dataclass
class Clients:
    """A server's clients, both good and bad. Every response must be exactly the text in `answers`."""

    endpoint: Endpoint
    answers: Mapping[TextRequest, str]
    may_fail: bool = False
    num_equal: int = 0
    num_failed: int = 0
    rng: Random = field(default_factory=lambda: Random("clients"))

    async def ask(self) -> None:
        request = self.rng.choice(list(self.answers))
        answer = await complete(self.endpoint, request, time.perf_counter())
        if answer.error is not None:
            assert self.may_fail, answer.error
            self.num_failed += 1
        else:
            assert answer.text == self.answers[request]
            self.num_equal += 1

    async def hang_up(self) -> None:
        """Send a request and disconnect, before the first token or after it."""
        request = self.rng.choice(list(self.answers))
        await complete(self.endpoint, request, time.perf_counter(), timeout=self.rng.uniform(0.0, 1.0))

    async def send_garbage(self) -> None:
        """Send requests that must be rejected with a status from 400 to 499 or by closing the connection."""
        body = self.rng.choice((*GARBAGE, *NO_HTTP))
        data = body if body in NO_HTTP else self.endpoint.http("POST", self.endpoint.path, body)
        reader, writer = await asyncio.open_connection(self.endpoint.host, self.endpoint.port)
        writer.write(data)
        said = b""
        with suppress(ConnectionError):
            said = await asyncio.wait_for(reader.read(), PATIENCE)
        writer.transport.abort()
        assert not said or re.match(rb"HTTP/1.1 4\d\d ", said), (data[:80], said[:80])

    async def burst(self, count: int) -> None:
        """Open many streams at once; three of ten disconnect."""
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(self.hang_up() if number % 10 < 3 else self.ask())

    async def load(self, seconds: float, sample: Callable[[], float] = lambda: 0.0) -> list[tuple[float, float]]:
        """Keep 16 clients busy alongside 200 half-open connections; return (second, `sample()`) for every half
        second."""
        start, samples = time.monotonic(), list[tuple[float, float]]()
        half_open = [await asyncio.open_connection(self.endpoint.host, self.endpoint.port) for _ in range(200)]
        for number, (_, writer) in enumerate(half_open):
            writer.write(HALF_OPEN[number % 2])

        async def work() -> None:
            while time.monotonic() < start + seconds:
                [action] = self.rng.choices((self.ask, self.hang_up, self.send_garbage), (8, 1, 1))
                await action()

        async with asyncio.TaskGroup() as group:
            working = [group.create_task(work()) for _ in range(16)]
            while not all(task.done() for task in working):
                samples.append((time.monotonic() - start, sample()))
                await asyncio.sleep(0.5)
        for _, writer in half_open:
            writer.transport.abort()
        return samples

    async def sigterm(self, server: MeasuredServer) -> None:
        """Send SIGTERM in the middle of many streams: they are completed, and later requests are refused."""
        async with asyncio.TaskGroup() as group:
            streams = [group.create_task(self.ask()) for _ in range(200)]
            while sum(gauges(server)[:2]) + sum(stream.done() for stream in streams) < len(streams):
                await asyncio.sleep(0.01)
            server.process.terminate()
            assert not all(stream.done() for stream in streams), "the signal came too late"
            request = next(iter(self.answers))
            while (error := (await complete(self.endpoint, request, time.perf_counter())).error) is None:
                pass
            assert error.startswith(REFUSALS)


def gauges(server: MeasuredServer) -> list[float]:
    found = [re.search(rf"^vllm:{name}(?:{{.*}})? (\S+)$", server.get("/metrics"), re.MULTILINE) for name in GAUGES]
    return [float(one[1]) for one in found if one is not None]


def held(server: MeasuredServer) -> tuple[int, int, int]:
    """Return the resources of the server's processes: bytes of memory, threads, open files and connections."""
    parent = psutil.Process(server.process.pid)
    processes = [parent, *parent.children(recursive=True)]
    rss = sum(process.memory_info().rss for process in processes)
    return rss, sum(process.num_threads() for process in processes), sum(process.num_fds() for process in processes)


def growth_of(samples: Sequence[tuple[float, float]]) -> float:
    """Return the fraction by which the samples' trend line (least squares) grows over the second half."""
    half = np.array(samples[len(samples) // 2 :])
    slope = np.polyfit(half[:, 0], half[:, 1], 1)[0]
    return float(slope * (half[-1, 0] - half[0, 0]) / half[:, 1].mean())


@pytest.fixture(scope="module")
def answers() -> dict[TextRequest, str]:
    """Requests with their correct texts, generated offline by an engine with the same config."""
    rng = Random("questions")
    requests = [TextRequest(0.0, words(rng.randrange(3, 60), f"{n}"), rng.randrange(8, 33)) for n in range(64)]
    params = [SamplingParams(max_tokens=request.max_tokens, ignore_eos=True) for request in requests]
    outputs = LLM(config=CONFIG, lineup=SOLUTION).generate([request.prompt for request in requests], params)
    return {request: output.outputs[0].text for request, output in zip(requests, outputs, strict=True)}


@pytest.mark.endurance
@pytest.mark.timeout(SECONDS + 1800)
def test_nothing_is_left_of_a_load_and_a_sigterm_loses_no_answer(answers: dict[TextRequest, str]) -> None:
    allow_many_connections()
    server = MeasuredServer(server_command(OURS, BackendSettings(str(EMBEDDED_MODEL), kv_cache_tokens=32_768)))
    try:
        clients = Clients(server.endpoint, answers)
        asyncio.run(clients.burst(200))  # from here on, the server has all the threads that it will ever have
        wait_until(lambda: gauges(server) == [0, 0, 0], "every block is free after the warm-up")
        time.sleep(2)  # wait until the last connections have closed
        _, num_threads, num_fds = held(server)
        asyncio.run(clients.burst(1000))
        samples = asyncio.run(clients.load(SECONDS, lambda: held(server)[0]))
        wait_until(lambda: gauges(server) == [0, 0, 0], "every block is free after the load")
        wait_until(lambda: held(server)[1] <= num_threads, f"no more than {num_threads} threads")
        wait_until(lambda: held(server)[2] <= num_fds, f"no more than {num_fds} open files")
        assert growth_of(samples) <= MAX_GROWTH
        asyncio.run(clients.sigterm(server))
        assert server.process.wait(PATIENCE) == 0, server.last_words()
    finally:
        server.stop()


@pytest.mark.endurance
@pytest.mark.timeout(SECONDS + 1800)
def test_failing_steps_end_their_own_requests_alone(answers: dict[TextRequest, str]) -> None:
    engine, steps = build_engine(CONFIG, SOLUTION), count(1)
    execute = engine.runner.execute_model

    def fail_now_and_then(batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        if next(steps) % FAILS_EVERY == 0:
            raise RuntimeError("injected fault")
        return execute(batch)

    with patch.object(engine.runner, "execute_model", fail_now_and_then), serving(AsyncLLM(engine)) as server:
        clients = Clients(Endpoint(server.address, OURS, extra_body=IGNORE_EOS), answers, may_fail=True)
        asyncio.run(clients.load(SECONDS))
        server.wait_until_idle()
    assert clients.num_failed > 0
    assert clients.num_equal > 0


def test_growing_memory_is_distinguished_from_fluctuating_memory() -> None:
    flat = [(float(n), 1e9 + 1e6 * (n % 7)) for n in range(100)]
    assert abs(growth_of(flat)) < 0.001
    assert growth_of([(second, rss + 1e6 * second) for second, rss in flat]) == pytest.approx(0.05, rel=0.1)
    assert abs(growth_of([(second, rss + 1e8 * min(second, 40)) for second, rss in flat])) < 0.001
