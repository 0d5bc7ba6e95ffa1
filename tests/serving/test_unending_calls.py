"""An engine in its own process, as in `mini-vllm serve`, when its code never returns or its process dies."""

import linecache
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import httpx
import openai
import psutil
import pytest

from labs.phase1_scheduler_step import starter
from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.scheduler_parts import SchedulerParts
from mini_vllm.engine import engine_process
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.engine_process import EngineProcess
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm_labs.cli.serving import call_watch
from mini_vllm_labs.cli.serving.call_watch import WatchedCall, watch_calls
from mini_vllm_labs.cli.serving.engine_spec import EngineSpec
from mini_vllm_labs.serving.served_model import max_tokens_of_request
from solutions import phase1_scheduler_step
from tests.serving.page.conftest import events, next_of, watching
from tests.serving.running import (
    CHAT,
    COMPLETION,
    FAKE,
    HELLO,
    MODEL,
    PATIENCE,
    RawConnection,
    ServerUnderTest,
    serving,
    wait_until,
)

SPEC = EngineSpec(FAKE, parse_lineup("solution:1-5"))
GATE = threading.Event()
FIELDS: Any = {"model": MODEL, "messages": HELLO, "max_tokens": 40, "seed": 3, "temperature": 0.7, "n": 2}
COUNTS = "index = 3\n    while index:\n        index += 0"
CATCHES = "while True:\n        try:\n            while True: pass\n        except BaseException: pass"
WAITS = "import threading\n    threading.Event().wait()"
NATIVE = "import itertools\n    sum(itertools.repeat(0))"
CRASHES = "import ctypes\n    ctypes.string_at(0)"
EXITS = "import os\n    os._exit(3)"
FORKS = "import os\n    os.fork() or os._exit(0)"


def learners(body: str, name: str = "schedule_step") -> Callable[..., Any]:
    """Return a function like one that a learner could have written in phase 1."""
    namespace: dict[str, Any] = {"gate": GATE, "reference": phase1_scheduler_step.schedule_step}
    exec(compile(f"def {name}(*args, **kwargs):\n    {body}", starter.__file__, "exec"), namespace)
    return namespace[name]  # type: ignore[no-any-return]


def open_with(body: str, is_in_call: bool = False) -> LLMEngine:
    """Open an engine in its own process, which runs a learner's code in each step or for each new request."""
    call_watch.LIMIT, call_watch.PAUSE = 1.0, 0.05
    engine = SPEC.open()
    source = f"def what_a_learner_wrote():\n    {body}\n"
    linecache.cache[starter.__file__] = (len(source), None, source.splitlines(keepends=True), starter.__file__)
    put_in(engine, body, is_in_call)
    return engine


def put_in(engine: LLMEngine, body: str, is_in_call: bool) -> None:
    scheduler: Scheduler = engine.scheduler
    if is_in_call:
        scheduler.add_request = learners(body, "add_request")  # type: ignore[method-assign]
    else:
        make_parts, schedule_step = scheduler._make_parts, learners(body)

        def parts() -> SchedulerParts:
            made = make_parts()
            return replace(made, functions=replace(made.functions, schedule_step=schedule_step))

        scheduler._make_parts = parts  # a restart recreates these parts
        scheduler.restart()


def told(server: ServerUnderTest) -> list[str]:
    """Request a text; return what its client, a later client, `/health` and an open page receive."""
    with httpx.Client(base_url=server.address, timeout=PATIENCE) as http, watching(http) as stream:
        with RawConnection(server) as connection:
            connection.ask(COMPLETION)
            first = connection.read_answer()[2]
        page = next(data for name, data in stream if name == "status" and not data["is_alive"])["reason"]
        answers = [http.get("/health"), http.post(CHAT, json={"messages": HELLO})]
    assert [answer.json()["error"]["code"] for answer in answers] == ["engine_dead", "engine_dead"]
    return [page, *(answer["error"]["message"] for answer in (first, *(answer.json() for answer in answers)))]


@pytest.mark.parametrize("is_in_call", [False, True])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (COUNTS, ["still running after 1 seconds of CPU time in one call", "starter.py:", ", in ", "index = 3"]),
        (CATCHES, ["still running after 1 seconds of CPU time in one call", "starter.py:", ", in "]),
        (WAITS, ["Your code has waited for 1 seconds in one call", "starter.py:3, in", "threading.Event().wait()"]),
    ],
)
def test_an_endless_call_is_reported_with_its_line(body: str, words: list[str], is_in_call: bool) -> None:
    llm = AsyncLLM(partial(open_with, body, is_in_call), watch_calls)
    with serving(llm, shutdown_timeout=60) as server:
        for text in told(server):
            assert all(word in text for word in words), text
        began = time.monotonic()
    assert time.monotonic() - began < 20, "the shutdown does not wait for an engine that has ended"


@pytest.mark.parametrize("is_in_call", [False, True])
def test_an_engine_in_the_servers_own_process_is_given_up_too(
    is_in_call: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_watch, "LIMIT", 0.5)
    GATE.clear()
    engine = build_engine(FAKE, parse_lineup("solution:1-5"))
    put_in(engine, "gate.wait()", is_in_call)
    try:
        with serving(AsyncLLM(engine, watch_calls)) as server:
            assert all("Your code has waited for 0.5 seconds" in text for text in told(server))
    finally:
        GATE.set()


@pytest.mark.parametrize("body", ["gate.wait()", "while not gate.wait(0.01): pass", "while not gate.is_set(): pass"])
def test_a_slow_call_is_reported_early_and_the_report_is_withdrawn(
    body: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(call_watch, "NOTICE", 0.3)
    monkeypatch.setattr(call_watch, "LIMIT", 600.0)
    GATE.clear()
    engine = build_engine(FAKE, parse_lineup("solution:1-5"))
    put_in(engine, f"{body}\n    return reference(*args, **kwargs)", is_in_call=False)
    words = "One call into your code has taken"
    with serving(AsyncLLM(engine, watch_calls)) as server, httpx.Client(base_url=server.address) as http:
        with watching(http) as page, RawConnection(server) as connection:
            connection.ask(COMPLETION, stream=True, max_tokens=3, ignore_eos=True)
            assert words in connection.read_until(b"of them CPU time").decode()
            assert "starter.py:2, in" in connection.read_until(b"\n\n").decode()
            told = next(data["notice"] for name, data in page if name == "status" and data["notice"])
            health = httpx.get(f"{server.address}/health")
            assert (health.status_code, health.json()["status"]) == (200, "slow")
            for text in (told, health.json()["message"], caplog.text):
                assert words in text
                assert "starter.py:2, in schedule_step" in text
            GATE.set()
            assert b'"finish_reason":"length"' in connection.read_until(b"data: [DONE]")
            assert any(name == "status" and not data["notice"] for name, data in page)
            assert httpx.get(f"{server.address}/health").json() == {"status": "ok"}
        assert "That call has ended: the engine goes on." in caplog.text


def test_a_notice_comes_by_the_clock_and_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_watch, "cpu_time", lambda thread: 1.0)
    call, told = WatchedCall(sys._getframe(), 0.5, began=0.0), dict[int, str]()
    for seconds in range(30):
        monkeypatch.setattr(time, "monotonic", lambda now=seconds: float(now))
        if notice := call.notice(0):
            told[seconds] = notice
    assert list(told) == [4, 8, 16]
    assert told[4] == "One call into your code has taken 4 seconds so far, 0.5 of them CPU time. Now:"


def test_a_step_cannot_fork_the_engine() -> None:
    with serving(AsyncLLM(partial(open_with, FORKS), watch_calls)) as server:
        host = server.llm._host
        assert isinstance(host, EngineProcess)
        for _ in range(2):
            status, error = server.post(COMPLETION, prompt="abc")
            assert (status, "would create a second engine" in error["message"]) == (500, True)
        assert not psutil.Process(host._process.pid).children()
        assert server.post("/tokenize", prompt="abc")[0] == 200


def test_native_code_that_holds_the_interpreter_is_reported_with_its_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine_process, "SECONDS_OF_SILENCE", 3)
    with serving(AsyncLLM(partial(open_with, NATIVE), watch_calls)) as server:
        assert all("has not answered for 3 seconds" in text for text in told(server))
    assert 'starter.py", line 3 in schedule_step' in capfd.readouterr().err.replace("\\", "/")


@pytest.mark.parametrize(("body", "code"), [(CRASHES, -11), (EXITS, 3)])
def test_the_end_of_the_process_is_reported(
    body: str, code: int, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with serving(AsyncLLM(partial(open_with, body), watch_calls)) as server:
        assert all(f"has exited with code {code}" in text for text in told(server))
    assert f"has exited with code {code}" in caplog.text, "the terminal says so, too"
    assert ('starter.py", line 3 in schedule_step' in capfd.readouterr().err.replace("\\", "/")) == (code < 0)


def test_a_process_that_was_stopped_for_a_while_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_process, "SECONDS_OF_SILENCE", 4)
    with serving(AsyncLLM(SPEC.open, watch_calls)) as server:
        host = server.llm._host
        assert isinstance(host, EngineProcess)
        process = psutil.Process(host._process.pid)
        process.suspend()
        time.sleep(2.0)
        process.resume()
        assert server.call(max_tokens_of_request) > 0


def test_a_polling_call_counts_as_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu_seconds = count(0.0, 0.01)
    monkeypatch.setattr(call_watch, "cpu_time", lambda thread: next(cpu_seconds))
    call = WatchedCall(sys._getframe(), 0.0)
    num_looks, (words, _) = next((looks, found) for looks in count(1) if (found := call.verdict(0)))
    assert (num_looks, words) == (320, "Your code has waited for 80 seconds in one call:")


def test_long_work_in_many_short_calls_is_no_endless_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_watch, "LIMIT", 0.3)
    monkeypatch.setattr(call_watch, "PAUSE", 0.01)
    given_up: list[str] = []
    watch_calls(given_up.append, lambda notice: None)
    short, end = learners("return sum(range(2000))"), time.monotonic() + 1.5
    while time.monotonic() < end:
        short()
    assert not given_up
    GATE.clear()
    threading.Thread(target=learners("gate.wait(20)"), daemon=True).start()
    wait_until(lambda: bool(given_up), "a call that waits is seen")
    GATE.set()


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
    with pytest.raises(openai.InternalServerError, match="the engine has stopped: restart the server"):
        client.chat.completions.create(**FIELDS)


def test_a_stream_that_has_begun_ends_with_an_error(server: ServerUnderTest) -> None:
    stream = server.client_of().chat.completions.create(**{**FIELDS, "max_tokens": 5000, "n": 1}, stream=True)
    next(iter(stream))
    server.llm.pause()
    kill_engine(server)
    with pytest.raises(openai.APIError, match="process has exited with code -9"):
        list(stream)
