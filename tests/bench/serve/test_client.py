"""Tests the client: what it sends, when, and how it handles every possible answer."""

import asyncio

import pytest

from mini_vllm_labs.bench.serve.answer import ClientAnswer
from mini_vllm_labs.bench.serve.completion import complete, run_round
from mini_vllm_labs.bench.serve.text_requests import Endpoint, TextRequest
from tests.bench.serve.stub import GAP, Stub


def ask(stub: Stub, prompt: str, max_tokens: int = 3, timeout: float = 60.0) -> ClientAnswer:
    return asyncio.run(complete(stub.endpoint, TextRequest(0.0, prompt, max_tokens), 0.0, timeout))


def test_a_completion_is_read_with_its_times_and_its_usage(stub: Stub) -> None:
    answer = ask(stub, "hello", 5)
    assert (answer.error, answer.status, answer.finish_reason) == (None, 200, "length")
    assert answer.text == "w0 w1 w2 w3 w4 "
    assert (answer.num_prompt_tokens, answer.num_output_tokens) == (3, 5)
    assert len(answer.itls) == 4
    assert answer.ttft >= GAP
    assert answer.e2el >= 5 * GAP
    assert answer.tpot == pytest.approx(sum(answer.itls) / 4)
    assert answer.sent <= answer.token_times[0] <= answer.token_times[-1] <= answer.ended


def test_the_request_is_one_that_any_openai_server_takes(stub: Stub) -> None:
    ask(stub, "hello", 2)
    assert stub.bodies[-1] == {
        "model": "stub",
        "prompt": "hello",
        "max_tokens": 2,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_chat_is_sent_and_read_as_one(stub: Stub) -> None:
    endpoint = Endpoint(f"http://127.0.0.1:{stub.port}/v1/", "stub", "secret", {"ignore_eos": True}, is_chat=True)
    request = endpoint.post(TextRequest(0.0, "hello", 2))
    assert request.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert b"Authorization: Bearer secret\r\n" in request
    answer = asyncio.run(complete(endpoint, TextRequest(0.0, "hello", 2), 0.0))
    assert (answer.text, answer.error) == ("w0 w1 ", None)
    assert stub.bodies[-1]["ignore_eos"] is True


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("full", "HTTP 429: the queue is full"),
        ("broken", "HTTP 500: Traceback"),
        ("empty", "no answer: the connection was closed"),
        ("cut", "the connection was cut before the answer's end"),
        ("garbage", "not HTTP: "),
        ("nonsense", 'the stream contains an event that is not a completion: {"choices": 7}'),
        ("binary", "the stream contains an event that is not a completion: "),
        ("list", "the stream contains an event that is not a completion: [1]"),
        ("error", "the stream contains an error: the runner failed"),
        ("unfinished", "the stream ended without a finish_reason"),
        ("nothing", "the stream ended without a finish_reason"),
    ],
)
def test_every_failure_is_counted_with_its_reason(stub: Stub, prompt: str, reason: str) -> None:
    error = ask(stub, prompt).error
    assert error is not None
    assert error.startswith(reason)


def test_a_silent_server_is_given_up(stub: Stub) -> None:
    assert ask(stub, "silent", timeout=0.2).error == "no end within 0.2 seconds"


def test_a_server_that_is_not_there_is_a_failure_too(stub: Stub) -> None:
    answer = asyncio.run(complete(Endpoint("http://127.0.0.1:1", "stub"), TextRequest(0.0, "hello", 1), 0.0))
    assert answer.error is not None
    assert answer.error.startswith("no connection: ")


@pytest.mark.parametrize(
    ("prompt", "text", "num_tokens"),
    [("until-close", "ab", 2), ("one-token", "", 1), ("other-lines", "a", 1), ("cut-lines", "a", 1)],
)
def test_unusual_answers_are_whole_ones(stub: Stub, prompt: str, text: str, num_tokens: int) -> None:
    answer = ask(stub, prompt)
    assert (answer.error, answer.text, answer.num_output_tokens) == (None, text, num_tokens)
    assert len(answer.token_times) == num_tokens


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://127.0.0.1", "http://"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"base_url must be http://HOST:PORT .* got"):
        Endpoint(url, "stub")


def test_requests_go_out_at_their_times_whatever_comes_back(stub: Stub) -> None:
    requests = [TextRequest(0.05 * number, prompt, 20) for number, prompt in enumerate(["a", "full", "cut", "b"])]
    seen: list[int] = []
    done = run_round(stub.endpoint, requests, on_progress=seen.append)
    assert [answer.planned for answer in done.answers] == [0.0, 0.05, 0.1, pytest.approx(0.15)]
    for answer, lag in zip(done.answers, done.lags, strict=True):
        assert answer.sent >= answer.planned
        assert answer.sent == pytest.approx(answer.planned + lag, abs=0.05)
    assert done.answers[3].sent < done.answers[0].ended, "the last one did not wait for the first one's end"
    assert [answer.error is None for answer in done.answers] == [True, False, False, True]
    assert len(done.completed) == 2
    assert seen == [1, 2, 3, 4]
    assert 0 < done.cpu_seconds < done.seconds + 1


def test_max_concurrency_bounds_how_many_are_under_way(stub: Stub) -> None:
    done = run_round(stub.endpoint, [TextRequest(0.0, "hello", 3) for _ in range(6)], max_concurrency=2)
    spans = [(answer.sent, answer.ended) for answer in done.answers]
    assert max(sum(sent <= moment < ended for sent, ended in spans) for moment, _ in spans) == 2
    assert max(answer.e2el for answer in done.answers) < done.seconds - 2 * 3 * GAP
