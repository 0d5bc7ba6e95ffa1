"""The same server on Ray Serve: texts, streams, errors, hits by the router, clients that hang up."""

import time
from typing import Any

import httpx
import openai
import pytest

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from tests.ray_serve.conftest import KEY

pytest.importorskip("ray", reason="Ray is an optional extra: pip install -c constraints.txt -e '.[ray]'")
SYSTEM = "You are a careful assistant. " * 20


def metrics(address: str, name: str) -> float:
    """Return a metric of the replica that is asked: the sum over some answers reaches both."""
    page = httpx.get(f"{address}/metrics").text
    return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith(name + "{"))


def test_texts_are_those_of_one_engine(client: Any) -> None:
    prompts = [f"prompt {number} " * 9 for number in range(4)]
    llm = LLM(config=EngineConfig(num_gpu_blocks=400), lineup=parse_lineup("solution:1-5"))
    offline = [output.outputs[0].text for output in llm.generate(prompts, SamplingParams(12))]
    answers = [client.completions.create(model="mini-vllm", prompt=prompt, max_tokens=12) for prompt in prompts]
    assert [answer.choices[0].text for answer in answers] == offline


def test_a_stream_is_the_whole_answer_in_pieces(client: Any) -> None:
    whole = client.completions.create(model="mini-vllm", prompt="abc", max_tokens=300, temperature=0)
    stream = client.completions.create(model="mini-vllm", prompt="abc", max_tokens=300, temperature=0, stream=True)
    pieces = [chunk.choices[0].text for chunk in stream]
    assert len(pieces) > 1
    assert "".join(pieces) == whole.choices[0].text


def test_a_conversation_finds_its_prefix_again(client: Any) -> None:
    cached = []
    for _ in range(4):
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "hello"}]
        usage = client.chat.completions.create(model="mini-vllm", messages=messages, max_tokens=4).usage
        cached.append(usage.prompt_tokens_details.cached_tokens)
    assert min(cached[1:]) > 500, "every turn has gone to the replica that knows the system prompt"


def test_errors_are_those_of_the_server(client: Any, address: str) -> None:
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="another", prompt="abc")
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="mini-vllm", prompt="abc", max_tokens=0)
    assert refused.value.param == "max_tokens"
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    assert httpx.post(f"{address}/v1/completions", content=b" " * 5_000_000, headers=headers).status_code == 413


def test_a_client_that_hangs_up_ends_its_request(client: Any, address: str) -> None:
    stream = client.completions.create(model="mini-vllm", prompt="abc", max_tokens=1900, n=40, stream=True)
    next(stream)
    stream.close()
    deadline = time.monotonic() + 60
    while any(metrics(address, "vllm:num_requests_running") for _ in range(4)):
        assert time.monotonic() < deadline, "the request goes on"
        time.sleep(0.1)
    assert not any(metrics(address, "vllm:kv_cache_usage_perc") for _ in range(4))
